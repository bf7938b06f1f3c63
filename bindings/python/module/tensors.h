// The Python type of a lazy tensor.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_tensors(nanobind::module_& module);

}  // namespace ballast::python
