#include "ballast/models/kind_config.h"

#include <fmt/format.h>

namespace ballast {

namespace {

constexpr std::string_view kHuggingFaceWords = "huggingface", kGgufWords = "gguf", kGptrsWords = "gptrs";

}  // namespace

std::string KindConfig::to_own() const {
  switch (words) {
    case Words::kItsOwn: return text;
    case Words::kHuggingFace:
      return fmt::format(R"({{"{}": {}, "sentence": {}}})", kHuggingFaceWords, text, sentence.value_or("null"));
    case Words::kGguf: return fmt::format(R"({{"{}": {}}})", kGgufWords, text);
    case Words::kNewerGptrs:
      return fmt::format(R"({{"{}": {{"kind": "{}", "config": {}}}}})", kGptrsWords, gptrs_kind, text);
    case Words::kLayers:
      return fmt::format(R"({{"separator": "{}", "layers": {}, "about": {}}})", layers.separator, layers.layers,
                         layers.about.empty() ? "null" : layers.about);
  }
  return text;
}

Result<KindConfig> KindConfig::from_own(std::string_view text) {
  KindConfig config{.text = std::string(text)};
  const auto fields = parse_kind_config("", text);
  if (!fields) return config;  // for the kind to say
  if (const auto said = fields->find(kHuggingFaceWords)) {
    config.words = Words::kHuggingFace;
    config.text = *said;
    if (const auto sentence = fields->find("sentence")) config.sentence = *sentence;
  } else if (const auto metadata = fields->find(kGgufWords)) {
    config.words = Words::kGguf;
    config.text = *metadata;
  } else if (fields->has(kGptrsWords)) {
    BALLAST_TRY(const JsonObject model, fields->object(kGptrsWords));
    config.words = Words::kNewerGptrs;
    BALLAST_TRY(config.gptrs_kind, model.text("kind"));
    config.text = model.find("config").value_or("null");
  }
  return config;
}

Result<JsonObject> parse_kind_config(std::string_view kind, std::string_view text) {
  std::string where = kind.empty() ? "the model's config" : fmt::format("config of the {} model", kind);
  return JsonObject::parse_or_null(text, std::move(where), kConfigRules);
}

}  // namespace ballast
