// The rows of the format table, each defined in the file of its format.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

extern const FormatDriver kGgufDriver;
extern const FormatDriver kGptrsCheckpointDriver;
extern const FormatDriver kGptrsTensorsDriver;
extern const FormatDriver kNetclCheckpointDriver;
extern const FormatDriver kNetclDriver;
extern const FormatDriver kNetclLegacyDriver;
extern const FormatDriver kNpyDriver;
extern const FormatDriver kNpzDriver;
extern const FormatDriver kSafetensorsDriver;
extern const FormatDriver kBurnpackDriver;

}  // namespace ballast
