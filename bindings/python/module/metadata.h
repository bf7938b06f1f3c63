// Metadata values as Python's own: texts, numbers, truth values and lists of these.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "ballast/formats/description.h"

namespace ballast::python {

namespace nb = nanobind;

nb::object to_python(const MetaValue& value);
nb::dict metadata_dict(const std::vector<MetaEntry>& metadata);
// TypeError for a key that is no text, or a value that metadata cannot hold. None gives none.
std::vector<MetaEntry> metadata_from(nb::handle mapping);

}  // namespace ballast::python
