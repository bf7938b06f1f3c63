#include "ballast/runtime/stop_tokens.h"

#include <limits>

#include "ballast/models/config_reader.h"
#include "ballast/models/config_schema.h"

namespace ballast {

namespace {

constexpr std::string_view kEnd = "eos_token_id";
constexpr std::string_view kGptrsEnds = "eos_token_ids";  // beside "kind" and "config", by later generations

Result<std::vector<uint64_t>> end_tokens(std::string_view name, std::string_view text, std::string_view key = kEnd) {
  BALLAST_TRY(const ConfigReader config, ConfigReader::parse(name, text));
  if (!config.has(key)) return std::vector<uint64_t>();
  if (config.raw(key)->starts_with('[')) return config.counts(key);
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

}  // namespace ballast
