// verify, diff, hash, stats and doctor. They give plain values, of which ballast._reports makes objects.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_tools(nanobind::module_& module);

}  // namespace ballast::python
