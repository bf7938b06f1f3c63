// The rows of the format table, each defined in the file of its format.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

extern const FormatDriver kGptrsCheckpointDriver;
extern const FormatDriver kGptrsTensorsDriver;
extern const FormatDriver kSafetensorsDriver;

}  // namespace ballast
