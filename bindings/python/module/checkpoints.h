// The writer of a folder of checkpoints, and one checkpoint that was read.
#pragma once

#include <nanobind/nanobind.h>

namespace ballast::python {

void bind_checkpoints(nanobind::module_& module);

}  // namespace ballast::python
