#include "ballast/exchange/runnable.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/model_folder.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/id_index.h"
#include "ballast/formats/name_index.h"
#include "ballast/formats/netcl/netcl.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/model_config.h"
#include "ballast/models/kinds.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/params/param_store.h"

namespace ballast {

namespace {

bool has_text(const Description& file, std::string_view key) {
  return std::ranges::any_of(file.metadata, [&](const MetaEntry& entry) {
    return entry.key == key && std::holds_alternative<std::string>(entry.value);
  });
}

std::optional<std::string> take_text(Description& file, std::string_view key) {
  const auto found = std::ranges::find(file.metadata, key, &MetaEntry::key);
  if (found == file.metadata.end() || !std::holds_alternative<std::string>(found->value)) return std::nullopt;
  std::string text = std::get<std::string>(std::move(found->value));
  file.metadata.erase(found);
  return text;
}

// The tensors of a description without their bytes: enough to build a model, and to see that nothing is missing.
class DescribedParams final : public ParamSource {
 public:
  explicit DescribedParams(const Description& file) : file_(file), by_name_(file.tensors) {}

  std::span<const TensorInfo> params() const override { return file_.tensors; }
  std::optional<size_t> find(std::string_view name) const override { return by_name_.find(file_.tensors, name); }
  std::optional<size_t> find(const BaseParamId& id) const override { return by_id_.find(file_.tensors, id); }
  Status read(size_t, uint64_t, MutableByteSpan) const override { return make_error(ErrorCode::kIo, "not read yet"); }
  std::optional<ByteSpan> view(size_t) const override { return std::nullopt; }
  bool reads_parts(size_t) const override { return true; }
  const std::string& name() const override { return file_.format; }

 private:
  const Description& file_;
  NameIndex by_name_;
  IdIndex by_id_;
};

// A config of gpt.rs's may be anything; a model is what it describes and the tensors make up.
bool makes_up_a_model(const Description& file, const std::string& config) {
  const auto model = parse_model_config(config, "config");
  if (!model) return false;
  const auto kind = std::ranges::find(all_model_kinds(), model->kind, &ModelKind::name);
  if (kind == all_model_kinds().end()) return false;
  const auto store = ParamStore::open(std::make_shared<DescribedParams>(file), {});
  if (!store) return false;
  ParamLoader params(**store);
  const auto built = kind->build(model->config, params);
  // Some look at values while they are built: everything was there until then.
  return built || built.error().code == ErrorCode::kIo;
}

// "3:weight" in netcl's files is "3.weight" in safetensors.
void rename_layers(Description& file, char from, char to) {
  for (TensorInfo& tensor : file.tensors) {
    const size_t at = tensor.name.find_first_not_of("0123456789");
    if (at != 0 && at != std::string::npos && tensor.name[at] == from) tensor.name[at] = to;
  }
}

// ---------------------------------------------------------------- in and out of metadata

Status wrap_layers(Description& file) {
  if (has_text(file, nn::kSequentialKey)) return {};
  std::string text = std::move(file.config->text);
  // Only the first generation leaves out that a convolution has no bias.
  if (file.format == kNetclLegacyDriver.name)
    BALLAST_CHECK(assign(text, netcl_config_as_version_2(text, file.tensors)));
  file.config.reset();
  file.metadata.push_back({std::string(nn::kSequentialKey), std::move(text)});
  rename_layers(file, ':', '.');
  return {};
}

void unwrap_layers(Description& file) {
  auto text = take_text(file, nn::kSequentialKey);
  if (!text) return;
  // netcl's reader looks for its own word.
  constexpr std::string_view kOurs = R"("format": "ballast.sequential")";
  if (const size_t at = text->rfind(kOurs); at != std::string::npos) {
    text->replace(at, kOurs.size(), R"("format": "netcl.single-file")");
  }
  file.config = ModelConfig{std::string(kNetclSchema), *std::move(text)};
  rename_layers(file, '.', ':');
}

void wrap_gptrs(Description& file) {
  if (!file.config || has_text(file, kModelConfigKey)) return;
  file.metadata.push_back({std::string(kModelConfigKey), std::move(file.config->text)});
  file.config.reset();
}

void unwrap_gptrs(Description& file) {
  if (auto text = take_text(file, kModelConfigKey))
    file.config = ModelConfig{std::string(kGptrsSchema), *std::move(text)};
}

std::string_view form_name(ModelForm form) {
  switch (form) {
    case ModelForm::kHuggingFace: return "Hugging Face model";
    case ModelForm::kGguf: return "GGUF model";
    case ModelForm::kGptrs: return "gpt.rs model";
    case ModelForm::kLayers: return "model made of layers";
    case ModelForm::kNone: break;
  }
  return "set of tensors";
}

std::string_view where_it_runs(ModelForm form) {
  switch (form) {
    case ModelForm::kHuggingFace:
      return "its config and tokenizer are files of their own; name a folder (ending in /) or a .gguf file as "
             "destination";
    case ModelForm::kGguf: return "name a folder (ending in /), a .gguf or a .gptrs file as destination";
    case ModelForm::kGptrs: return "name a .gptrs, .gguf or .safetensors file, or a folder (ending in /)";
    case ModelForm::kLayers: return "name a .netcl or .safetensors file";
    case ModelForm::kNone: break;
  }
  return "";
}

}  // namespace

Result<ModelForm> find_model_form(const Description& file, const std::string& path) {
  if (has_text(file, nn::kSequentialKey)) return ModelForm::kLayers;
  if (file.config && file.config->schema == kNetclSchema) return ModelForm::kLayers;
  if (file.config && file.config->schema == kHuggingFaceSchema) return ModelForm::kHuggingFace;
  if (const auto config = runnable_config(file); config && config->schema == kGptrsSchema) {
    return makes_up_a_model(file, config->text) ? ModelForm::kGptrs : ModelForm::kNone;
  }
  const bool is_gguf = file.format == kGgufDriver.name || file.format.empty();
  if (is_gguf && has_text(file, "general.architecture")) return ModelForm::kGguf;
  if (path.empty() || path == "-" || !takes_config_from_folder(file)) return ModelForm::kNone;
  BALLAST_TRY(const ModelFolder folder, read_model_folder(path));
  return folder.config ? ModelForm::kHuggingFace : ModelForm::kNone;
}

Error cannot_run(ModelForm form, const FormatDriver& format) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("a {} does not run as {}: {}", form_name(form), format.name, where_it_runs(form)));
}

PlanEdit unwrap_config(const FormatDriver& format) {
  return [schema = format.config_schema](WritePlan& plan, std::vector<std::string>&) -> Status {
    if (schema == kNetclSchema) unwrap_layers(plan.description);
    if (schema == kGptrsSchema) unwrap_gptrs(plan.description);
    return {};
  };
}

PlanEdit keep_runnable(const FormatDriver& format) {
  return [&format](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    Description& file = plan.description;
    BALLAST_TRY(const ModelForm form, find_model_form(file));
    const bool is_safetensors = format.name == kSafetensorsDriver.name;
    switch (form) {
      case ModelForm::kNone: return {};
      case ModelForm::kLayers:
        if (is_safetensors) return wrap_layers(file);
        if (format.config_schema == kNetclSchema) return unwrap_config(format)(plan, notes);
        break;
      case ModelForm::kGptrs:
        if (is_safetensors) wrap_gptrs(file);
        if (format.config_schema == kGptrsSchema) unwrap_gptrs(file);
        if (is_safetensors || format.config_schema == kGptrsSchema) return {};
        break;
      case ModelForm::kGguf:
        if (format.name == kGgufDriver.name) return {};
        break;
      case ModelForm::kHuggingFace: break;
    }
    return cannot_run(form, format);
  };
}

}  // namespace ballast
