// The formats that a program can name. Each symbol leads to one format, so that what is not named is not linked.
#include "ballast/formats/drivers.h"
#include "bindings/core/handle.h"

namespace {

ballast::Status unpack(const ballast::Archive& archive, size_t index, ballast::MutableByteSpan out) {
  return archive.read_into(index, out);
}

}  // namespace

extern const ballast_core_format ballast_core_burnpack = {&ballast::kBurnpackReader, nullptr};
extern const ballast_core_format ballast_core_safetensors = {&ballast::kSafetensorsReader, nullptr};
extern const ballast_core_format ballast_core_gptrs = {&ballast::kGptrsCheckpointReader, nullptr};
extern const ballast_core_format ballast_core_gptrs_tensors = {&ballast::kGptrsTensorsReader, nullptr};
extern const ballast_core_format ballast_core_gguf = {&ballast::kGgufReader, unpack};
extern const ballast_core_format ballast_core_torch = {&ballast::kTorchReader, unpack};
extern const ballast_core_format ballast_core_netcl = {&ballast::kNetclReader, unpack};
extern const ballast_core_format ballast_core_npz = {&ballast::kNpzReader, unpack};
extern const ballast_core_format ballast_core_npy = {&ballast::kNpyReader, unpack};

const char* ballast_core_format_name(const ballast_core_format* format) { return format->reader->name.data(); }
