#include "apps/ballast/commands/write_tensors.h"

#include <fmt/format.h>

#include "ballast/archive/convert.h"
#include "ballast/device/host_values.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

// Formats of plain tensors: the others hold models, whose config is missing here. NumPy's file holds one array.
Result<const FormatDriver*> format_to_write(const std::string& path, Tensors count) {
  const FormatDriver* format = format_for_extension(path);
  const std::string_view name = format != nullptr ? format->name : "";
  if (name == "gptrs-tensors" || name == "npz" || name == "safetensors") return format;
  if (name == "npy" && count == Tensors::kOne) return format;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the result is stored as .gten, .npz{}", path,
                                count == Tensors::kOne ? ", .npy or .safetensors" : " or .safetensors"));
}

Status check_destination(const std::string& path, bool overwrite, Tensors count) {
  if (path.empty()) return {};
  BALLAST_CHECK(format_to_write(path, count));
  AtomicFiles files({.overwrite = overwrite});
  if (auto sink = files.add(path, 0); !sink) return std::move(sink).error();
  return {};
}

}  // namespace

Status check_outputs(const std::string& out, const ModelFlags& flags, Tensors count) {
  BALLAST_CHECK(check_destination(out, flags.overwrite, count));
  return check_profile(flags, out);
}

Status write_tensors(const std::string& path, std::span<const NamedTensor> tensors, bool overwrite) {
  BALLAST_TRY(const FormatDriver* format,
              format_to_write(path, tensors.size() == 1 ? Tensors::kOne : Tensors::kSeveral));
  // NumPy's file of one array has no name for it.
  const bool is_bare = format->name == "npy" && tensors.size() == 1;
  WritePlan plan;
  std::vector<HostValues<std::byte>> payloads;  // until they are written
  payloads.reserve(tensors.size());
  for (const NamedTensor& named : tensors) {
    BALLAST_TRY(auto payload, HostValues<std::byte>::of(named.tensor));
    payloads.push_back(std::move(payload));
    TensorInfo info;
    info.name = is_bare ? "arr_0" : named.name;
    info.dtype = named.tensor.dtype();
    info.shape = Shape(named.tensor.dims().span());
    info.byte_size = payloads.back().size();
    plan.add_tensor(std::move(info), payloads.back().span());
  }
  ConvertOptions options;
  options.write.commit.overwrite = overwrite;
  options.write.format.keep_order = true;  // a trace is read in the order in which it happened
  if (auto written = convert_plan(std::move(plan), path, *format, options); !written) return std::move(written).error();
  return {};
}

}  // namespace ballast::cli
