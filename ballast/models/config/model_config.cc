#include "ballast/models/config/model_config.h"

#include <fmt/format.h>

#include <utility>

#include "ballast/base/json.h"

namespace ballast {

namespace {

Status parse_overrides(const JsonObject& runtime, ModelDescription& model) {
  const auto raw = runtime.find("functional_overrides");
  if (!raw) return {};
  JsonReader reader(*raw, "functional_overrides");
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) return {};
    BALLAST_TRY(std::string policy, reader.read_string());
    model.functional_overrides.emplace_back(key, std::move(policy));
  }
}

template <typename T, typename Read>
Status read_knob(const JsonObject& fields, std::string_view name, std::optional<T>& knob, Read&& read) {
  if (!fields.has(name)) return {};
  return assign(knob, read(name));
}

Status parse_streaming(const JsonObject& runtime, WeightStreaming& streaming) {
  if (!runtime.has("weight_streaming")) return {};
  BALLAST_TRY(const JsonObject fields, runtime.object("weight_streaming"));
  BALLAST_TRY(streaming.enabled, fields.truth_or("enabled", false));
  const auto count = [&](std::string_view name) { return fields.count(name); };
  const auto number = [&](std::string_view name) { return fields.number(name); };
  BALLAST_CHECK(read_knob(fields, "device_budget_bytes", streaming.device_budget_bytes, count));
  BALLAST_CHECK(read_knob(fields, "device_weights_percent", streaming.device_weights_fraction, number));
  BALLAST_CHECK(read_knob(fields, "cache_budget_cap_bytes", streaming.cache_budget_cap_bytes, count));
  BALLAST_CHECK(read_knob(fields, "prefetch_layers", streaming.prefetch_layers, count));
  BALLAST_CHECK(read_knob(fields, "small_param_persist_threshold", streaming.small_param_persist_threshold, count));
  const bool any = streaming.device_budget_bytes || streaming.device_weights_fraction ||
                   streaming.cache_budget_cap_bytes || streaming.prefetch_layers ||
                   streaming.small_param_persist_threshold;
  if (any && !streaming.enabled) return fields.error("enabled", "is false although other fields are set");
  const auto fraction = streaming.device_weights_fraction;
  if (fraction && !(*fraction >= 0 && *fraction <= 1)) {
    return fields.error("device_weights_percent", fmt::format("is {}: a fraction between 0 and 1", *fraction));
  }
  return {};
}

// Later generations of gpt.rs keep the config of Hugging Face's model, and its names and layouts.
bool has_huggingface_fields(std::string_view text) {
  const auto fields = parse_kind_config("", text);
  if (!fields || fields->has("embed_dim")) return false;
  return fields->has("hidden_size") || fields->has("n_embd") || fields->has("text_config");
}

void recognise_generation(ModelDescription& model) {
  if ((model.kind != "gpt" && model.kind != "ministral") || !has_huggingface_fields(model.config.text)) return;
  model.config.words = KindConfig::Words::kNewerGptrs;
  model.config.gptrs_kind = std::exchange(model.kind, "decoder");
}

// Only these kinds know other words than their own.
Result<KindConfig> config_of(std::string_view kind, std::string_view text) {
  if (kind == "decoder" || kind == "bert") return KindConfig::from_own(text);
  return KindConfig{.text = std::string(text)};
}

Result<ModelDescription> parse_config(std::string_view json) {
  ModelDescription model;
  BALLAST_TRY(const JsonObject unnamed, parse_kind_config("", json));
  if (!unnamed.mentions("kind") && unnamed.has("vocab_size") && unnamed.has("embed_dim")) {
    model.kind = "gpt";
    model.config.text = json;
    BALLAST_CHECK(parse_overrides(unnamed, model));
    return model;
  }
  if (!unnamed.has("kind")) {
    return make_error(ErrorCode::kUnsupported, "its config names no model kind, so it cannot be run as it is");
  }
  BALLAST_TRY(model.kind, unnamed.text("kind"));
  BALLAST_TRY(const JsonObject fields, parse_kind_config(model.kind, json));
  if (const auto config = fields.find("config")) BALLAST_CHECK(assign(model.config, config_of(model.kind, *config)));
  if (fields.has("runtime")) {
    BALLAST_TRY(const JsonObject runtime, fields.object("runtime"));
    BALLAST_CHECK(parse_overrides(runtime, model));
    BALLAST_CHECK(parse_streaming(runtime, model.streaming));
  }
  recognise_generation(model);
  return model;
}

}  // namespace

Result<ModelDescription> parse_model_config(std::string_view json, const std::string& where) {
  auto model = parse_config(json);
  if (!model) return std::move(model).error().with_context(where);
  return model;
}

}  // namespace ballast
