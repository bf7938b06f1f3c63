#include "ballast/text/generation_defaults.h"

#include <algorithm>

#include "ballast/archive/file_set.h"
#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"
#include "ballast/text/find_chat_template.h"

namespace ballast {

namespace {

constexpr uint64_t kLargestGenerationConfig = 1 << 20;

std::optional<double> meta_number(const MetaValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<uint64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return std::nullopt;
}

// 0 (no limit) for what is no count.
uint64_t whole_count(double number) {
  constexpr double kMost = 1e9;
  return number >= 1 ? static_cast<uint64_t>(std::min(number, kMost)) : 0;
}

// As llama.cpp has it: below 0 is the whole context, 0 switches the penalty off.
uint64_t window_of(double number) { return number < 0 ? kWholeContext : whole_count(number); }

Result<std::optional<SamplerOptions>> checked_sampling(const SamplerOptions& options, const std::string& where) {
  Status valid = check_sampler_options(options);
  if (!valid) return std::move(valid).error().with_context(where);
  return std::optional(options);
}

Result<std::optional<SamplerOptions>> sampling_beside(const FileSet& files) {
  const std::string name = "generation_config.json";
  BALLAST_TRY(const auto text, read_if_there(files, name, kLargestGenerationConfig, "a generation config"));
  if (!text) return std::optional<SamplerOptions>();
  return sampling_in_config(*text, files.place_of(name));
}

}  // namespace

SamplerOptions usual_sampling(bool has_chat_template) {
  SamplerOptions options;
  options.temperature = has_chat_template ? 0 : 0.8;
  return options;
}

Result<std::optional<SamplerOptions>> sampling_in_config(std::string_view text, const std::string& where) {
  BALLAST_TRY(const JsonObject config, JsonObject::parse(text, where));
  BALLAST_TRY(const auto samples, config.find_truth("do_sample"));
  BALLAST_TRY(const auto temperature, config.find_real("temperature"));
  BALLAST_TRY(const auto top_k, config.find_count("top_k"));
  BALLAST_TRY(const auto top_p, config.find_real("top_p"));
  BALLAST_TRY(const auto min_p, config.find_real("min_p"));
  BALLAST_TRY(const auto penalty, config.find_real("repetition_penalty"));
  if (!samples && !temperature && !top_k && !top_p && !min_p && !penalty) return std::optional<SamplerOptions>();
  SamplerOptions options;
  // transformers draws from the whole distribution where the file asks to draw and says no more.
  options.temperature = samples.value_or(true) ? temperature.value_or(1) : 0;
  options.top_k = top_k.value_or(0);
  options.top_p = top_p.value_or(1);
  options.min_p = min_p.value_or(0);
  options.repetition_penalty = penalty.value_or(1);
  if (penalty) options.repetition_window = kWholeContext;
  return checked_sampling(options, where);
}

Result<std::optional<SamplerOptions>> sampling_in_metadata(const Description& description, const std::string& where) {
  constexpr std::string_view kPrefix = "general.sampling.";
  SamplerOptions options = usual_sampling(/*has_chat_template=*/false);
  std::optional<uint64_t> window;
  bool found = false, penalised = false;
  for (const MetaEntry& entry : description.metadata) {
    if (!entry.key.starts_with(kPrefix)) continue;
    const std::string_view name = std::string_view(entry.key).substr(kPrefix.size());
    const std::optional<double> number = meta_number(entry.value);
    if (!number) continue;
    if (name == "temp") options.temperature = *number;
    else if (name == "top_k") options.top_k = whole_count(*number);
    else if (name == "top_p") options.top_p = *number;
    else if (name == "min_p") options.min_p = *number;
    else if (name == "penalty_repeat") options.repetition_penalty = *number, penalised = true;
    else if (name == "penalty_last_n") window = window_of(*number);
    else continue;
    found = true;
  }
  if (!found) return std::optional<SamplerOptions>();
  // A file made from generation_config.json, which knows no window, must choose as that does.
  if (window) options.repetition_window = *window;
  else if (penalised) options.repetition_window = kWholeContext;
  return checked_sampling(options, where);
}

Result<SamplerOptions> find_sampling_defaults(const ModelSource& model) {
  return guarded([&]() -> Result<SamplerOptions> {
    if (model.files() != nullptr) {
      BALLAST_TRY(const auto beside, sampling_beside(*model.files()));
      if (beside) return *beside;
    }
    if (const auto archive = model.archive()) {  // whoever loads the model says what is wrong with it
      BALLAST_TRY(const auto inside, sampling_in_metadata((*archive)->description(), model.name()));
      if (inside) return *inside;
    }
    BALLAST_TRY(const auto chat_template, find_chat_template(model));
    return usual_sampling(chat_template.has_value());
  });
}

Result<SamplerOptions> find_sampling_defaults(const std::string& model_path) {
  return guarded([&] { return find_sampling_defaults(ModelSource(model_path)); });
}

}  // namespace ballast
