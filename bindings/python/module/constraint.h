// Constraints for Python: what a text has to look like. ballast/constraint.py has the class that people use.
#pragma once

#include <nanobind/nanobind.h>

#include "ballast/text/constraint.h"

namespace ballast::python {

namespace nb = nanobind;

void bind_constraint(nb::module_& module);

}  // namespace ballast::python
