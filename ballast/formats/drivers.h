// The rows of the format table, each defined in the file of its format.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

extern const FormatDriver kSafetensorsDriver;
extern const FormatDriver kBurnpackDriver;

}  // namespace ballast
