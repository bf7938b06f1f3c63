// Training for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_train(nanobind::module_& module);

}  // namespace ballast::python
