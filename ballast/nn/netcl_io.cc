#include "ballast/nn/netcl_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "ballast/archive/open.h"
#include "ballast/backends/backends.h"
#include "ballast/base/checked.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "ballast/io/guard.h"
#include "ballast/tensor/cast.h"

namespace ballast::netcl {

namespace {

using nn::Layer;
using nn::LayerPtr;
using nn::NamedTensor;
using nn::Sequential;

// ---------------------------------------------------------------- saving

// kInvalidArgument names every layer that netcl cannot save.
Result<std::vector<std::string>> check_layers(const Sequential& model, const SaveModelOptions& options) {
  std::vector<std::string> refused, warnings;
  const std::span<const LayerPtr> layers = model.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = *layers[i];
    if (layer.netcl_saves()) continue;
    if (layer.type() == "Embedding" && options.allow_embedding) {
      warnings.push_back(fmt::format("layer {} is an Embedding, which netcl's load_model refuses", i));
    } else {
      refused.push_back(fmt::format("{} ({})", i, layer.type()));
    }
  }
  if (refused.empty()) return warnings;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("netcl cannot save layer {}: save the model as safetensors, which holds the same "
                                "layers as JSON",
                                fmt::join(refused, ", ")));
}

// ---------------------------------------------------------------- loading

// "3.weight" of the model is "3:weight" of a file.
std::string file_name_of(const std::string& name, char separator) {
  std::string text = name;
  text[text.find('.')] = separator;
  return text;
}

bool same_but_for_ones(const Shape& a, const Shape& b) {
  const auto without = [](const Shape& shape) {
    std::vector<uint64_t> dims(shape.dims().begin(), shape.dims().end());
    std::erase(dims, uint64_t{1});
    return dims;
  };
  return without(a) == without(b);
}

struct FileTensor {
  size_t index = 0;
  bool fits = false;
};

// What each tensor of the model finds in the file, before any memory is taken for it.
struct Matching {
  std::map<std::string, FileTensor, std::less<>> found;  // by the model's names
  LoadReport report;
};

Result<Matching> match(const std::vector<LayerPtr>& layers, const Archive& archive, char separator) {
  Matching matching;
  std::vector<bool> claimed(archive.tensors().size());
  uint64_t absent = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const nn::LayerTensor& tensor : layers[i]->tensors()) {
      const std::string name = fmt::format("{}.{}", i, tensor.key), in_file = file_name_of(name, separator);
      const auto index = archive.find(in_file);
      const Shape* shape = index ? &archive.tensors()[*index].shape : nullptr;
      const bool fits = shape != nullptr && same_but_for_ones(*shape, tensor.shape);
      if (index) claimed[*index] = true;
      if (!index) matching.report.missing.push_back(in_file);
      else if (!fits) matching.report.mismatched.push_back({in_file, tensor.shape, *shape});
      else if (!(*shape == tensor.shape))
        matching.report.warnings.push_back(fmt::format("\"{}\" has shape {} and is taken as {}", in_file,
                                                       shape->to_string(), tensor.shape.to_string()));
      if (index) matching.found.emplace(name, FileTensor{*index, fits});
      if (!fits) absent = checked_add(absent, tensor.shape.element_count().value_or(UINT64_MAX)).value_or(UINT64_MAX);
    }
  }
  // What a file does not hold must not take memory just because its config asks for it.
  const uint64_t most = archive.stored_size() + (64 << 20);
  if (absent > most / sizeof(float)) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("the layers ask for {} values that the file of {} bytes does not hold", absent,
                                  archive.stored_size()));
  }
  for (size_t i = 0; i < claimed.size(); ++i) {
    if (!claimed[i]) matching.report.unclaimed.push_back(archive.tensors()[i].name);
  }
  return matching;
}

std::string quoted(const std::vector<std::string>& names) { return fmt::format("\"{}\"", fmt::join(names, "\", \"")); }

Status judge(const LoadReport& report, const LoadModelOptions& options) {
  std::vector<std::string> problems;
  if (!options.keep_mismatched) {
    for (const nn::ShapeMismatch& mismatch : report.mismatched) problems.push_back(nn::mismatch_text(mismatch));
  }
  const bool shapes = !problems.empty();
  if (options.strict && !report.missing.empty()) problems.push_back("missing: " + quoted(report.missing));
  if (options.strict && !report.unclaimed.empty()) problems.push_back("no layer has: " + quoted(report.unclaimed));
  if (problems.empty()) return {};
  return make_error(shapes ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound,
                    fmt::format("{}", fmt::join(problems, "; ")));
}

void add_warnings(LoadReport& report) {
  for (const std::string& name : report.missing) {
    report.warnings.push_back(fmt::format("\"{}\" is not in the file and keeps its first value", name));
  }
  for (const std::string& name : report.unclaimed) {
    report.warnings.push_back(fmt::format("\"{}\" belongs to no layer and is left out", name));
  }
  for (const nn::ShapeMismatch& mismatch : report.mismatched) {
    report.warnings.push_back(nn::mismatch_text(mismatch) + "; it keeps its first value");
  }
  double version = 0;
  const std::string& text = report.version;
  const bool known = std::from_chars(text.data(), text.data() + text.size(), version).ec == std::errc();
  if (!text.empty() && (!known || version > 2)) {
    report.warnings.push_back(
        fmt::format("the file says version {}; what is newer than 2 may mean something else", text));
  }
}

bool is_computed_with(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32; }

void note_narrowed(const Archive& archive, Matching& matching) {
  for (const auto& [name, tensor] : matching.found) {
    const TensorInfo& info = archive.tensors()[tensor.index];
    if (!tensor.fits || info.dtype != DType::kF64) continue;
    matching.report.warnings.push_back(fmt::format("\"{}\" is f64 and is computed with as f32", info.name));
  }
}

nn::SequentialOptions sequential_options(const LoadModelOptions& options, const Archive& archive,
                                         const Matching& matching) {
  nn::SequentialOptions made;
  made.seed = options.seed;
  if (options.dtype) {
    made.dtype = *options.dtype;
    return made;
  }
  // Floating types that are computed with stay what they are; all others become f32.
  made.dtype_of = [&](std::string_view name, DType otherwise) {
    const auto found = matching.found.find(name);
    if (found == matching.found.end() || !found->second.fits) return otherwise;
    const DType dtype = archive.tensors()[found->second.index].dtype;
    return is_computed_with(dtype) ? dtype : otherwise;
  };
  return made;
}

Status fill(Sequential& model, const Archive& archive, const Matching& matching) {
  for (const Param& param : model.tensors()) {
    const auto found = matching.found.find(param.name());
    if (found == matching.found.end() || !found->second.fits) continue;
    const TensorInfo& info = archive.tensors()[found->second.index];
    const MutableByteSpan bytes = model.memory().bytes(param.index());
    if (info.dtype == param.dtype()) {
      BALLAST_CHECK(archive.read_into(found->second.index, bytes));
      continue;
    }
    BALLAST_TRY(const Payload payload, archive.payload(found->second.index));
    if (!can_cast(info.dtype, param.dtype())) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is {}, which cannot become {}", info.name,
                                                                 info.type_name(), dtype_name(param.dtype())));
    }
    auto cast = cast_elements(info.dtype, payload.bytes(), param.dtype(), bytes);
    if (!cast) return std::move(cast).error().with_context(fmt::format("\"{}\"", info.name));
  }
  return {};
}

Result<LoadedModel> load_from(const Archive& archive, const LoadModelOptions& options) {
  BALLAST_TRY(const auto listing, nn::read_layer_listing(archive.description()));
  if (!listing) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a {} file without netcl's JSON: it does not say which layers the model has",
                                  archive.description().format));
  }
  const nn::LayerTable built_in;
  const nn::LayerTable& table = options.layers != nullptr ? *options.layers : built_in;
  BALLAST_TRY(std::vector<LayerPtr> layers, table.build_all(listing->layers, "the model's layers"));
  BALLAST_TRY(Matching matching, match(layers, archive, listing->separator));
  BALLAST_CHECK(judge(matching.report, options));
  BALLAST_TRY(auto model, Sequential::make(std::move(layers), sequential_options(options, archive, matching)));
  BALLAST_CHECK(fill(*model, archive, matching));
  model->set_about(listing->about);
  matching.report.version = listing->version;
  if (!options.dtype) note_narrowed(archive, matching);
  add_warnings(matching.report);
  return LoadedModel{std::move(model), std::move(matching.report)};
}

}  // namespace

Result<nn::SaveReport> save_model(const Sequential& model, const std::string& path, const SaveModelOptions& options) {
  return guarded([&]() -> Result<nn::SaveReport> {
    auto warnings = check_layers(model, options);
    if (!warnings) return std::move(warnings).error().with_context(path);
    WritePlan plan;
    plan.description.format = kNetclDriver.name;
    plan.description.config = ModelConfig{std::string(kNetclSchema), nn::sequential_json(model, "netcl.single-file")};
    for (NamedTensor& tensor : model.state_dict()) {
      tensor.info.name = file_name_of(tensor.info.name, ':');
      tensor.info.requires_grad.reset();
      plan.add_tensor(std::move(tensor.info), tensor.bytes);
    }
    BALLAST_CHECK(nn::create_parents(path));
    WriteSettings settings;
    settings.commit = {.overwrite = options.overwrite, .sync = options.sync};
    BALLAST_TRY(const WriteReport written, write_archive(path, kNetclDriver, plan, settings));
    return nn::SaveReport{std::move(*warnings), written.bytes};
  });
}

Result<LoadedModel> load_model(const std::string& path, const LoadModelOptions& options) {
  return guarded([&]() -> Result<LoadedModel> {
    std::shared_ptr<Execution> execution = options.execution;
    if (execution == nullptr) {
      // It may be trained next.
      BALLAST_TRY(execution,
                  options.backend.empty() ? Execution::open(default_backend(true)) : Execution::open(options.backend));
    }
    BALLAST_TRY(const Archive archive, open_archive(path, {.access = FileAccess::kPositional}));
    auto loaded = load_from(archive, options);
    if (!loaded) return std::move(loaded).error().with_context(path);
    loaded->model->to(std::move(execution));
    return loaded;
  });
}

}  // namespace ballast::netcl
