// convert and quantize.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_conversion(nanobind::module_& module);

}  // namespace ballast::python
