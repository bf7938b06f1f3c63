// The rows of the format table, each defined in the file of its format. A program that names only readers links no
// writer, and nothing of the formats that it does not name.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

extern const FormatReader kBurnpackReader;
extern const FormatReader kGgufReader;
extern const FormatReader kGptrsCheckpointReader;
extern const FormatReader kGptrsTensorsReader;
extern const FormatReader kNetclReader;
extern const FormatReader kNetclCheckpointReader;
extern const FormatReader kNetclLegacyReader;
extern const FormatReader kNpyReader;
extern const FormatReader kNpzReader;
extern const FormatReader kSafetensorsReader;
extern const FormatReader kTorchReader;

extern const FormatWriter kBurnpackWriter;
extern const FormatWriter kGgufWriter;
extern const FormatWriter kGptrsCheckpointWriter;
extern const FormatWriter kGptrsTensorsWriter;
extern const FormatWriter kNetclWriter;
extern const FormatWriter kNetclCheckpointWriter;
extern const FormatWriter kNetclLegacyWriter;
extern const FormatWriter kNpyWriter;
extern const FormatWriter kNpzWriter;
extern const FormatWriter kSafetensorsWriter;

extern const FormatDriver kBurnpackDriver;
extern const FormatDriver kGgufDriver;
extern const FormatDriver kGptrsCheckpointDriver;
extern const FormatDriver kGptrsTensorsDriver;
extern const FormatDriver kNetclDriver;
extern const FormatDriver kNetclCheckpointDriver;
extern const FormatDriver kNetclLegacyDriver;
extern const FormatDriver kNpyDriver;
extern const FormatDriver kNpzDriver;
extern const FormatDriver kSafetensorsDriver;
extern const FormatDriver kTorchDriver;

}  // namespace ballast
