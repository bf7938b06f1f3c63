#include "ballast/exchange/exchange.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/archive/model_folder.h"
#include "ballast/edit/adapt.h"
#include "ballast/exchange/runnable.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// Far above any tokenizer.json, far below what could hurt.
constexpr uint64_t kMostCompanionBytes = uint64_t{256} << 20;

fs::path folder_of_source(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
}

bool stands_beside(const std::string& source, const ExchangeTarget& target) {
  if (target.path == "-") return false;
  std::error_code ignored;
  const fs::path there = target.is_folder ? fs::path(target.path) : fs::absolute(target.path, ignored).parent_path();
  return fs::equivalent(there, fs::absolute(folder_of_source(source), ignored), ignored);
}

Result<std::string> read_companion(const fs::path& path) {
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kMostCompanionBytes) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: {} bytes are too many for a file beside the weights",
                                                           path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Status leave_config_out(WritePlan& plan, std::vector<std::string>&) {
  plan.description.config.reset();
  return {};
}

// A model of another form has nothing of the old file to remember: how that spelled things is no part of it. What an
// edit has spelled for the target stays.
PlanEdit forget_spelling(const FormatDriver& format) {
  return [&format](WritePlan& plan, std::vector<std::string>&) -> Status {
    Description& file = plan.description;
    if (file.config && file.config->schema != format.config_schema) file.config.reset();
    if (file.format == format.name) return {};
    file.format.clear();
    file.version.clear();
    file.producer.clear();
    file.stored_form.clear();
    for (TensorInfo& tensor : file.tensors) {
      tensor.set_stored_form({});
      tensor.param_id.reset();
      tensor.requires_grad.reset();
    }
    return {};
  };
}

// ---------------------------------------------------------------- from a Hugging Face folder

Result<ExchangePlan> copy_folder(const ExchangeSource& source) {
  ExchangePlan plan;
  BALLAST_TRY(const std::vector<std::string> names, list_companions(source.path));
  for (const std::string& name : names) {
    BALLAST_TRY(std::string contents, read_companion(folder_of_source(source.path) / name));
    plan.companions.push_back({name, std::move(contents)});
  }
  plan.edits.emplace_back(leave_config_out);  // config.json is carried as a file
  return plan;
}

// Only the names that gpt.rs has for a GPT-2 or a Mistral: the adapter says which models these are.
Result<ExchangePlan> plan_gptrs(const ExchangeSource& source) {
  ExchangePlan plan;
  BALLAST_TRY(ModelFolder folder, read_model_folder(source.path));
  AdaptOptions options;
  if (folder.config) options.huggingface.config_text = std::move(folder.config->text);
  options.huggingface.config_name = (folder_of_source(source.path) / "config.json").string();
  options.huggingface.name_gelu = true;
  plan.edits.push_back(adapt_with(*find_adapter("huggingface-to-gptrs"), std::move(options)));
  return plan;
}

void note_tokenizer(const ExchangeSource& source, const ExchangeTarget& target, ExchangePlan& plan) {
  if (source.path.empty() || source.path == "-" || stands_beside(source.path, target)) return;
  const auto tokenizer = find_tokenizer_beside(source.path);
  if (!tokenizer || (target.path != "-" && find_tokenizer_beside(target.path))) return;
  plan.notes.push_back(
      fmt::format("a {} file holds no tokenizer: copy {} into its folder to prompt the model with text",
                  target.format.name, *tokenizer));
}

Result<ExchangePlan> from_huggingface(const ExchangeSource& source, const ExchangeTarget& target) {
  const FormatDriver& format = target.format;
  if (format.name == kSafetensorsDriver.name && target.is_folder) return copy_folder(source);
  if (format.name == kGgufDriver.name) return plan_gguf(source);
  if (format.config_schema == kGptrsSchema) {
    BALLAST_TRY(ExchangePlan plan, plan_gptrs(source));
    note_tokenizer(source, target, plan);
    return plan;
  }
  if (format.name != kSafetensorsDriver.name || !stands_beside(source.path, target)) {
    return cannot_run(ModelForm::kHuggingFace, format);
  }
  ExchangePlan plan;
  plan.edits.emplace_back(leave_config_out);  // config.json is there already
  return plan;
}

// ---------------------------------------------------------------- from the others

// To where only a folder leads.
Result<ExchangePlan> through_folder(const ExchangeSource& source, const ExchangeTarget& target) {
  BALLAST_TRY(ExchangePlan plan, plan_folder(source, target.folder));
  plan.through_folder = true;
  return plan;
}

Result<ExchangePlan> from_gguf(const ExchangeSource& source, const ExchangeTarget& target) {
  if (target.format.name == kGgufDriver.name) return ExchangePlan();
  if (target.format.name == kSafetensorsDriver.name && target.is_folder) return plan_folder(source, target.folder);
  if (target.format.config_schema == kGptrsSchema) return through_folder(source, target);
  return cannot_run(ModelForm::kGguf, target.format);
}

// Not every model of gpt.rs's has a class in transformers, but its own files hold them all.
Result<ExchangePlan> or_as_a_file(Result<ExchangePlan> plan) {
  if (!plan && plan.error().code == ErrorCode::kUnsupported)
    plan.error().message += "; the model runs as a .gptrs or .safetensors file";
  return plan;
}

Result<ExchangePlan> from_gptrs(const ExchangeSource& source, const ExchangeTarget& target) {
  if (target.format.name == kGgufDriver.name) return plan_gguf(source);
  if (target.format.name == kSafetensorsDriver.name && target.is_folder)
    return or_as_a_file(plan_folder(source, target.folder));
  ExchangePlan plan;
  plan.edits.push_back(keep_runnable(target.format));
  note_tokenizer(source, target, plan);
  if (target.format.config_schema == kGptrsSchema || target.format.name == kSafetensorsDriver.name) return plan;
  return cannot_run(ModelForm::kGptrs, target.format);
}

Result<ExchangePlan> from_layers(const ExchangeTarget& target) {
  const FormatDriver& format = target.format;
  if (format.config_schema != kNetclSchema && format.name != kSafetensorsDriver.name) {
    return cannot_run(ModelForm::kLayers, format);
  }
  ExchangePlan plan;
  plan.edits.push_back(keep_runnable(format));
  return plan;
}

// Nothing stays behind unsaid.
Result<ExchangePlan> container_alone(ModelForm form, const ExchangeSource& source, const ExchangeTarget& target) {
  if (form == ModelForm::kHuggingFace && target.is_folder) return copy_folder(source);
  ExchangePlan plan;
  plan.edits.push_back(unwrap_config(target.format));
  if (form != ModelForm::kHuggingFace || stands_beside(source.path, target)) return plan;
  BALLAST_TRY(const std::vector<std::string> names, list_companions(source.path));
  if (names.empty()) return plan;
  plan.notes.push_back(fmt::format("{} stay{} in {}", fmt::join(names, ", "), names.size() == 1 ? "s" : "",
                                   folder_of_source(source.path).string()));
  return plan;
}

bool changes_form(ModelForm form, const ExchangeTarget& target) {
  switch (form) {
    case ModelForm::kHuggingFace: return target.format.name != kSafetensorsDriver.name;
    case ModelForm::kGguf: return target.format.name != kGgufDriver.name;
    case ModelForm::kGptrs:
      return target.format.name == kGgufDriver.name ||
             (target.is_folder && target.format.name == kSafetensorsDriver.name);
    default: return false;
  }
}

Result<ExchangePlan> plan_for(ModelForm form, const ExchangeSource& source, const ExchangeTarget& target) {
  if (form == ModelForm::kNone) return ExchangePlan();
  if (target.container_only) return container_alone(form, source, target);
  switch (form) {
    case ModelForm::kHuggingFace: return from_huggingface(source, target);
    case ModelForm::kGguf: return from_gguf(source, target);
    case ModelForm::kGptrs: return from_gptrs(source, target);
    default: return from_layers(target);
  }
}

}  // namespace

Result<ExchangePlan> plan_exchange(const ExchangeSource& source, const ExchangeTarget& target) {
  return guarded([&]() -> Result<ExchangePlan> {
    BALLAST_TRY(const ModelForm form, find_model_form(source.archive.description(), source.path));
    BALLAST_TRY(ExchangePlan plan, plan_for(form, source, target));
    plan.is_new_form = !target.container_only && changes_form(form, target);
    if (plan.is_new_form)
      plan.edits.push_back(forget_spelling(plan.through_folder ? kSafetensorsDriver : target.format));
    return plan;
  });
}

}  // namespace ballast
