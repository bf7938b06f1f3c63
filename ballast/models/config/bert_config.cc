#include "ballast/models/config/bert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/models/config/decoder_config.h"
#include "ballast/models/config/hf_parts.h"
#include "ballast/models/kind_config.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- sentence-transformers

struct PoolingMode {
  std::string_view field;
  std::optional<Pooling> pooling;
};
constexpr PoolingMode kPoolingModes[] = {
    {"pooling_mode_mean_tokens", Pooling::kMean},       {"pooling_mode_cls_token", Pooling::kFirst},
    {"pooling_mode_max_tokens", std::nullopt},          {"pooling_mode_mean_sqrt_len_tokens", std::nullopt},
    {"pooling_mode_weightedmean_tokens", std::nullopt}, {"pooling_mode_lasttoken", std::nullopt},
};

// Newer files have one word instead of a switch for each way.
Result<Pooling> pooling_word(const JsonObject& config) {
  BALLAST_TRY(const std::string word, config.text("pooling_mode"));
  if (word == "mean") return Pooling::kMean;
  if (word == "cls") return Pooling::kFirst;
  return config.error("pooling_mode", fmt::format("is \"{}\": mean and cls are what there is", word));
}

Result<Pooling> pooling_of(const JsonObject& config) {
  if (config.has("pooling_mode")) return pooling_word(config);
  std::optional<Pooling> chosen;
  for (const PoolingMode& mode : kPoolingModes) {
    BALLAST_TRY(const bool is_on, config.truth_or(mode.field, false));
    if (!is_on) continue;
    if (!mode.pooling) return config.error(mode.field, "is true: mean_tokens and cls_token are what there is");
    if (chosen) return config.error(mode.field, "is true beside another: one way of pooling is what there is");
    chosen = mode.pooling;
  }
  return chosen.value_or(Pooling::kMean);
}

Status set_pooling_module(const JsonObject& configs, BertDescription& d) {
  if (!configs.has("Pooling")) return {};
  BALLAST_TRY(const JsonObject config, configs.object("Pooling"));
  BALLAST_TRY(d.pooling, pooling_of(config));
  BALLAST_TRY(const uint64_t width, config.count_or("word_embedding_dimension", d.width));
  if (width == d.width) return {};
  return config.error("word_embedding_dimension", fmt::format("is {}, the model's hidden_size {}", width, d.width));
}

Status set_transformer_module(const JsonObject& configs, BertDescription& d) {
  if (!configs.has("Transformer")) return {};
  BALLAST_TRY(const JsonObject config, configs.object("Transformer"));
  BALLAST_TRY(const uint64_t length, config.count_or("max_seq_length", d.max_length));
  if (length == 0) return config.error("max_seq_length", "is 0");
  d.max_length = std::min(d.max_length, length);
  return {};
}

// Words in front of every text would have to be put there by whoever makes tokens of it.
Status refuse_prompt(const JsonObject& sentence) {
  if (!sentence.has("settings")) return {};
  BALLAST_TRY(const JsonObject settings, sentence.object("settings"));
  if (!settings.has("default_prompt_name")) return {};
  BALLAST_TRY(const std::string name, settings.text("default_prompt_name"));
  return settings.error(
      "default_prompt_name",
      fmt::format("is \"{}\": words that go in front of every text are not put there; make it null in "
                  "config_sentence_transformers.json, and write them",
                  name));
}

Status set_sentence(std::string_view text, BertDescription& d) {
  BALLAST_TRY(const JsonObject sentence,
              JsonObject::parse(text, "config of the bert model: sentence-transformers", kConfigRules));
  BALLAST_CHECK(refuse_prompt(sentence));
  BALLAST_TRY(const auto modules, sentence.texts("modules"));
  for (const std::string& module : modules) {
    if (module == "Normalize") d.normalise = true;
    else if (module != "Transformer" && module != "Pooling") {
      return sentence.error("modules",
                            fmt::format("has a \"{}\": Transformer, Pooling and Normalize are what there is", module));
    }
  }
  BALLAST_TRY(const JsonObject configs, sentence.object("configs"));
  BALLAST_CHECK(set_pooling_module(configs, d));
  return set_transformer_module(configs, d);
}

// ---------------------------------------------------------------- config.json

Status refuse_other_berts(const JsonObject& config) {
  BALLAST_TRY(const bool is_decoder, config.truth_or("is_decoder", false));
  if (is_decoder) return config.error("is_decoder", "is true: only encoders are known of this family");
  BALLAST_TRY(const std::string positions, config.text_or("position_embedding_type", "absolute"));
  if (positions == "absolute") return {};
  return config.error("position_embedding_type", fmt::format("is \"{}\": absolute is what there is", positions));
}

Result<BertDescription> describe_hf_bert(std::string_view text) {
  BALLAST_TRY(const JsonObject config, parse_kind_config("bert", text));
  BALLAST_CHECK(refuse_hf_switches(config));
  BALLAST_CHECK(refuse_other_berts(config));
  BertDescription d;
  d.naming = &kBertNaming;
  BALLAST_TRY(d.vocab, config.count("vocab_size"));
  BALLAST_TRY(d.types, config.count_or("type_vocab_size", 2));
  BALLAST_TRY(d.positions, config.count_or("max_position_embeddings", 512));
  BALLAST_TRY(d.width, config.count("hidden_size"));
  BALLAST_TRY(d.hidden, config.count("intermediate_size"));
  BALLAST_TRY(d.heads, config.count("num_attention_heads"));
  BALLAST_TRY(d.layers, config.count("num_hidden_layers"));
  BALLAST_TRY(const double eps, config.number_or("layer_norm_eps", 1e-12));
  d.eps = static_cast<float>(eps);
  BALLAST_TRY(d.activation, hf_activation(config, "hidden_act", "gelu"));
  d.max_length = d.positions;
  return d;
}

// ---------------------------------------------------------------- GGUF

Result<Pooling> gguf_pooling(const JsonObject& config) {
  constexpr std::string_view kField = "bert.pooling_type";
  constexpr std::array kTypes = {Pooling::kNone, Pooling::kMean, Pooling::kFirst};
  BALLAST_TRY(const uint64_t type, config.count_or(kField, 1));
  if (type < kTypes.size()) return kTypes[type];
  return config.error(kField, fmt::format("is {}: 0 (none), 1 (mean) and 2 (the first) are what there is", type));
}

// The activation is not in the file; what these models were trained with is.
Result<BertDescription> describe_gguf_bert(std::string_view metadata) {
  BALLAST_TRY(const JsonObject config, parse_kind_config("bert", metadata));
  BertDescription d;
  d.naming = &kBertGgufNaming;
  BALLAST_TRY(d.least_vocab, config.count_or(kGgufTokenCount, 0));
  BALLAST_TRY(d.positions, config.count("bert.context_length"));
  BALLAST_TRY(d.width, config.count("bert.embedding_length"));
  BALLAST_TRY(d.hidden, config.count("bert.feed_forward_length"));
  BALLAST_TRY(d.heads, config.count("bert.attention.head_count"));
  BALLAST_TRY(d.layers, config.count("bert.block_count"));
  BALLAST_TRY(const double eps, config.number("bert.attention.layer_norm_epsilon"));
  d.eps = static_cast<float>(eps);
  BALLAST_TRY(d.pooling, gguf_pooling(config));
  d.max_length = d.positions;
  return d;
}

Status check_bert(const BertDescription& d) {
  const auto wrong = [](const std::string& what) {
    return make_error(ErrorCode::kInvalidArgument, "config of the bert model: " + what);
  };
  if (d.layers == 0 || d.layers > kMostDecoderLayers) {
    return wrong(fmt::format("{} layers: from 1 to {} is what there is", d.layers, kMostDecoderLayers));
  }
  if (d.width == 0 || d.positions == 0 || d.hidden == 0) {
    return wrong(fmt::format("width {}, {} positions and a feed-forward part of {} must be above 0", d.width,
                             d.positions, d.hidden));
  }
  if (d.heads == 0 || d.width % d.heads != 0 || d.width > UINT64_MAX / 3) {
    return wrong(fmt::format("{} heads cannot share a width of {}", d.heads, d.width));
  }
  if (d.eps >= 0 && d.eps < 1) return {};
  return wrong(fmt::format("the norm's epsilon is {}", d.eps));
}

}  // namespace

Result<BertDescription> describe_bert(const KindConfig& config) {
  BertDescription d;
  if (config.words == KindConfig::Words::kHuggingFace) {
    BALLAST_CHECK(assign(d, describe_hf_bert(config.text)));
    if (config.sentence) BALLAST_CHECK(set_sentence(*config.sentence, d));
  } else if (config.words == KindConfig::Words::kGguf) {
    BALLAST_CHECK(assign(d, describe_gguf_bert(config.text)));
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      "config of the bert model: it must hold what a config.json says, as \"huggingface\", or the "
                      "metadata of a GGUF file, as \"gguf\"");
  }
  BALLAST_CHECK(check_bert(d));
  return d;
}

}  // namespace ballast
