#include "ballast/text/text_ends.h"

#include <array>
#include <limits>

#include "ballast/models/config/config_schema.h"
#include "ballast/models/kind_config.h"

namespace ballast {

namespace {

constexpr std::string_view kEndOfTextMark = "<|endoftext|>";

// How models end a turn, by the text of the token. They may stand anywhere in a vocabulary, whatever its file says the
// end of a text is.
constexpr std::array<std::string_view, 13> kEndsOfTurns = {
    "<|im_end|>", "<|eot_id|>",      "<|eom_id|>",      "<|end|>",    "<end_of_turn>", "<|endoftext|>",
    "</s>",       "<|end_of_text|>", "<|end_of_turn|>", "<|return|>", "<|endofturn|>", "<｜end▁of▁sentence｜>",
    "<|eos|>"};

constexpr std::string_view kEndKey = "eos_token_id";
constexpr std::string_view kGptrsEnds = "eos_token_ids";  // beside "kind" and "config", by later generations

Result<std::vector<uint64_t>> end_tokens(std::string_view name, std::string_view text, std::string_view key = kEndKey) {
  BALLAST_TRY(const JsonObject config, parse_kind_config(name, text));
  if (!config.has(key)) return std::vector<uint64_t>();
  if (config.find(key)->starts_with('[')) return config.counts(key);
  BALLAST_TRY(const uint64_t id, config.count(key));
  return std::vector<uint64_t>{id};
}

std::vector<uint64_t> gguf_end_tokens(const Description& file) {
  std::vector<uint64_t> ids;
  for (const MetaEntry& entry : file.metadata) {
    if (entry.key != "tokenizer.ggml.eos_token_id" && entry.key != "tokenizer.ggml.eot_token_id") continue;
    if (const auto* id = std::get_if<uint64_t>(&entry.value)) ids.push_back(*id);
  }
  return ids;
}

Result<std::vector<uint64_t>> said_end_tokens(const ModelFolder& folder, const Description& file) {
  if (file.format == "gguf") return gguf_end_tokens(file);
  if (const auto config = runnable_config(file); config && config->schema == "gptrs") {
    return end_tokens("gpt.rs", config->text, kGptrsEnds);
  }
  if (folder.generation_config) {
    BALLAST_TRY(auto ids, end_tokens("generation_config.json", *folder.generation_config));
    if (!ids.empty()) return ids;
  }
  if (folder.config) return end_tokens("config.json", folder.config->text);
  return std::vector<uint64_t>();
}

}  // namespace

Result<std::vector<TokenId>> find_stop_tokens(const ModelFolder& folder, const Description& file) {
  BALLAST_TRY(const std::vector<uint64_t> ids, said_end_tokens(folder, file));
  std::vector<TokenId> stops;
  for (const uint64_t id : ids) {
    // What no vocabulary holds never comes.
    if (id <= std::numeric_limits<TokenId>::max()) stops.push_back(static_cast<TokenId>(id));
  }
  return stops;
}

std::vector<TokenId> all_stop_tokens(std::span<const TokenId> of_model, const Tokenizer* tokenizer) {
  std::vector<TokenId> stops(of_model.begin(), of_model.end());
  if (tokenizer == nullptr) return stops;
  const std::vector<TokenId>& known = tokenizer->marks().stops;
  stops.insert(stops.end(), known.begin(), known.end());
  if (const auto end = tokenizer->find(kEndOfTextMark); end && stops.empty()) stops.push_back(*end);
  return stops;
}

std::optional<TokenId> first_token(const Tokenizer& tokenizer) {
  return tokenizer.marks().begin ? tokenizer.marks().begin : tokenizer.find(kEndOfTextMark);
}

std::vector<TokenId> turn_end_tokens(const Tokenizer& tokenizer) {
  std::vector<TokenId> found;
  for (const std::string_view text : kEndsOfTurns) {
    if (const auto id = tokenizer.find(text)) found.push_back(*id);
  }
  return found;
}

std::vector<std::string> turn_ends_in(std::string_view template_text) {
  std::vector<std::string> found;
  for (const std::string_view text : kEndsOfTurns) {
    if (template_text.find(text) != std::string_view::npos) found.emplace_back(text);
  }
  return found;
}

}  // namespace ballast
