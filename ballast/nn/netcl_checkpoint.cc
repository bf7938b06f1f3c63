// Raw parameters and checkpoints of netcl.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "ballast/base/hash.h"
#include "ballast/base/json_object.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "ballast/io/guard.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/tensor/cast.h"

namespace ballast::netcl {

namespace {

constexpr std::string_view kNpz = ".npz";
constexpr std::string_view kJson = ".json";

std::string stem_of(const std::string& path) {
  return path.ends_with(kNpz) ? path.substr(0, path.size() - kNpz.size()) : path;
}

std::string replaced_suffix(const std::string& path, std::string_view suffix) {
  return std::filesystem::path(path).replace_extension(suffix).string();
}

bool is_file(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_regular_file(path, failure);
}

// ---------------------------------------------------------------- names

Result<std::vector<std::string>> names_for(size_t count, std::span<const std::string> given) {
  std::vector<std::string> names(given.begin(), given.end());
  if (given.empty()) {
    for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("p{}", i));
  }
  if (names.size() != count) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} names for {} parameters: give one for each, or none", names.size(), count));
  }
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || !seen.insert(name).second) {
      return make_error(ErrorCode::kInvalidArgument, name.empty()
                                                         ? std::string("a parameter's name is empty")
                                                         : fmt::format("two parameters are called \"{}\"", name));
    }
  }
  return names;
}

Result<WritePlan> plan_params(std::span<const StateTensor> params, std::span<const std::string> names) {
  BALLAST_TRY(std::vector<std::string> all, names_for(params.size(), names));
  WritePlan plan;
  for (size_t i = 0; i < params.size(); ++i) {
    TensorInfo info = params[i].info;
    info.name = std::move(all[i]);
    info.requires_grad.reset();
    info.param_id.reset();
    plan.add_tensor(std::move(info), params[i].bytes);
  }
  return plan;
}

// ---------------------------------------------------------------- loading parameters

struct ReadParams {
  std::vector<ByteVector> values;  // one for each parameter, in its own type
  ParamsReport report;
  std::string digest;  // of all tensors of the file
};

Result<std::string> find_npz(const std::string& path) {
  for (const std::string& candidate : {path, path + std::string(kNpz), replaced_suffix(path, kNpz)}) {
    if (is_file(candidate)) return candidate;
  }
  return make_error(ErrorCode::kNotFound, fmt::format("{}: there is no such file, and neither \"{}{}\" nor \"{}\"",
                                                      path, path, kNpz, replaced_suffix(path, kNpz)));
}

Status check_fit(const StateTensor& param, const TensorInfo& info, bool cast, std::vector<std::string>& problems) {
  if (!(info.shape == param.info.shape)) {
    problems.push_back(nn::mismatch_text({info.name, param.info.shape, info.shape}));
  } else if (info.dtype != param.info.dtype && !cast) {
    problems.push_back(fmt::format("\"{}\" is {} in the model and {} in the file, and no cast was asked for", info.name,
                                   dtype_name(param.info.dtype), info.type_name()));
  } else if (info.dtype != param.info.dtype && !can_cast(info.dtype, param.info.dtype)) {
    problems.push_back(
        fmt::format("\"{}\" is {}, which cannot become {}", info.name, info.type_name(), dtype_name(param.info.dtype)));
  }
  return {};
}

// Which tensor of the file each parameter takes. All that is wrong in one text.
Result<std::vector<size_t>> find_params(std::span<const StateTensor> params, const std::vector<std::string>& names,
                                        const Archive& archive, const LoadParamsOptions& options) {
  std::vector<size_t> indices;
  std::vector<std::string> missing, problems;
  for (size_t i = 0; i < params.size(); ++i) {
    const auto index = archive.find(names[i]);
    indices.push_back(index.value_or(0));
    if (!index) missing.push_back(names[i]);
    else BALLAST_CHECK(check_fit(params[i], archive.tensors()[*index], options.cast, problems));
  }
  if (missing.empty() && problems.empty()) return indices;
  if (!missing.empty()) {
    problems.insert(problems.begin(), fmt::format("there is no \"{}\"", fmt::join(missing, "\", \"")));
  }
  return make_error(missing.empty() ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound,
                    fmt::format("{}", fmt::join(problems, "; ")));
}

Result<ByteVector> read_value(const Archive& archive, size_t index, const StateTensor& param) {
  const TensorInfo& info = archive.tensors()[index];
  ByteVector value(param.bytes.size());
  if (info.dtype == param.info.dtype) {
    BALLAST_CHECK(archive.read_into(index, value));
    return value;
  }
  BALLAST_TRY(const Payload payload, archive.payload(index));
  auto cast = cast_elements(info.dtype, payload.bytes(), param.info.dtype, value);
  if (!cast) return std::move(cast).error().with_context(fmt::format("\"{}\"", info.name));
  return value;
}

std::string hex_of(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

Result<ReadParams> read_params(std::span<const StateTensor> params, const std::string& npz,
                               std::span<const std::string> names, const LoadParamsOptions& options) {
  BALLAST_TRY(const std::vector<std::string> all, names_for(params.size(), names));
  BALLAST_TRY(const Archive archive, open_archive(npz, {.access = FileAccess::kPositional}));
  BALLAST_TRY(const std::vector<size_t> indices, find_params(params, all, archive, options));
  ReadParams read;
  for (const TensorInfo& tensor : archive.tensors()) {
    if (std::ranges::find(all, tensor.name) == all.end()) read.report.unclaimed.push_back(tensor.name);
  }
  if (options.strict && !read.report.unclaimed.empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("nobody asked for \"{}\"", fmt::join(read.report.unclaimed, "\", \"")));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    BALLAST_TRY(ByteVector value, read_value(archive, indices[i], params[i]));
    read.values.push_back(std::move(value));
  }
  BALLAST_TRY(const auto digests, digest_tensors(archive));
  read.digest = hex_of(archive_digest(archive.tensors(), digests));
  return read;
}

void put(std::span<const StateTensor> params, const ReadParams& read) {
  for (size_t i = 0; i < params.size(); ++i) std::ranges::copy(read.values[i], params[i].bytes.begin());
}

Error named(Error error, const std::string& path) {
  return error.message.starts_with(path) ? std::move(error) : std::move(error).with_context(path);
}

// ---------------------------------------------------------------- the JSON

constexpr std::string_view kDigestKey = "ballast.tensors";

// An object; empty and null are {}, as netcl writes nothing.
Result<std::string> object_text(std::string_view json, std::string_view what) {
  if (json.empty() || json == "null") return std::string("{}");
  BALLAST_TRY([[maybe_unused]] const JsonObject object, JsonObject::parse(json, std::string(what)));
  return std::string(json);
}

Result<std::optional<std::string>> read_json(const std::string& npz) {
  const std::string beside = stem_of(npz) + std::string(kJson), split = replaced_suffix(stem_of(npz), kJson);
  for (const std::string& candidate : {beside, split}) {
    if (!is_file(candidate)) continue;
    BALLAST_TRY(const auto source, open_file(candidate, FileAccess::kPositional));
    BALLAST_TRY(const BytesOrView bytes, BytesOrView::of(*source, 0, source->size()));
    return std::optional(std::string(as_text(bytes.bytes())));
  }
  return std::optional<std::string>();
}

Result<LoadedCheckpoint> parse_checkpoint(const std::optional<std::string>& json, const std::string& path) {
  LoadedCheckpoint loaded;
  loaded.json = json.value_or("{}");
  if (!json) loaded.warnings.push_back("there is no JSON beside the tensors: no optimizer state, no config");
  auto object = JsonObject::parse(loaded.json, path);
  if (!object) return make_error(ErrorCode::kCorrupt, object.error().message);
  if (const auto state = object->find("optim_state")) loaded.checkpoint.optim_state = *state;
  if (const auto config = object->find("config")) loaded.checkpoint.config = *config;
  return loaded;
}

Status check_pair(const LoadedCheckpoint& loaded, const ReadParams& read, const std::string& path) {
  BALLAST_TRY(const JsonObject object, JsonObject::parse(loaded.json, path));
  BALLAST_TRY(const auto expected, object.find_text(kDigestKey));
  if (!expected || *expected == read.digest) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: the .npz and the .json are of two different saves, as after a crash between the "
                                "two: take an earlier checkpoint",
                                path));
}

}  // namespace

Result<nn::SaveReport> save_params(std::span<const StateTensor> params, const std::string& path,
                                   std::span<const std::string> names, bool sync) {
  return guarded([&]() -> Result<nn::SaveReport> {
    BALLAST_TRY(WritePlan plan, plan_params(params, names));
    plan.description.format = kNpzDriver.name;
    plan.description.stored_form = NpzForm{.numpy = true}.to_text();
    const std::string npz = stem_of(path) + std::string(kNpz);
    BALLAST_CHECK(nn::create_parents(npz));
    WriteSettings settings;
    settings.commit = {.overwrite = true, .sync = sync};
    BALLAST_TRY(const WriteReport written, write_archive(npz, kNpzDriver, plan, settings));
    return nn::SaveReport{{}, written.bytes};
  });
}

Result<ParamsReport> load_params(std::span<const StateTensor> params, const std::string& path,
                                 std::span<const std::string> names, const LoadParamsOptions& options) {
  return guarded([&]() -> Result<ParamsReport> {
    BALLAST_TRY(const std::string npz, find_npz(path));
    auto read = read_params(params, npz, names, options);
    if (!read) return named(std::move(read).error(), npz);
    put(params, *read);
    return std::move(read->report);
  });
}

Result<nn::SaveReport> save_checkpoint(std::span<const StateTensor> params, const std::string& path,
                                       const Checkpoint& checkpoint, std::span<const std::string> names, bool sync) {
  return guarded([&]() -> Result<nn::SaveReport> {
    BALLAST_TRY(WritePlan plan, plan_params(params, names));
    BALLAST_TRY(const std::string state, object_text(checkpoint.optim_state, "optim_state"));
    BALLAST_TRY(const std::string config, object_text(checkpoint.config, "config"));
    BALLAST_TRY(const auto digests, digest_plan(plan));
    plan.description.format = kNetclCheckpointDriver.name;
    plan.description.config =
        ModelConfig{std::string(kNetclCheckpointSchema),
                    fmt::format("{{\"optim_state\": {}, \"config\": {}, \"{}\": \"{}\"}}", state, config, kDigestKey,
                                hex_of(archive_digest(plan.description.tensors, digests)))};
    BALLAST_CHECK(nn::create_parents(path));
    WriteSettings settings;
    settings.commit = {.overwrite = true, .sync = sync};
    const std::string json = stem_of(path) + std::string(kJson);
    BALLAST_TRY(const WriteReport written, write_archive(json, kNetclCheckpointDriver, plan, settings));
    return nn::SaveReport{{}, written.bytes};
  });
}

Result<LoadedCheckpoint> load_checkpoint(std::span<const StateTensor> params, const std::string& path,
                                         std::span<const std::string> names, const LoadParamsOptions& options) {
  return guarded([&]() -> Result<LoadedCheckpoint> {
    BALLAST_TRY(const std::string npz, find_npz(path));
    BALLAST_TRY(const auto json, read_json(npz));
    BALLAST_TRY(LoadedCheckpoint loaded, parse_checkpoint(json, path));
    auto read = read_params(params, npz, names, options);
    if (!read) return named(std::move(read).error(), npz);
    BALLAST_CHECK(check_pair(loaded, *read, path));
    put(params, *read);
    loaded.report = std::move(read->report);
    return loaded;
  });
}

}  // namespace ballast::netcl
