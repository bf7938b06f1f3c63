// Arrays of any library into a file.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_saving(nanobind::module_& module);

}  // namespace ballast::python
