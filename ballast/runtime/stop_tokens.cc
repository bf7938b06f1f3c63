#include "ballast/runtime/stop_tokens.h"

#include <algorithm>
#include <limits>

#include "ballast/models/config_reader.h"

namespace ballast {

namespace {

constexpr std::string_view kEnd = "eos_token_id";

Result<std::vector<uint64_t>> end_tokens(std::string_view name, std::string_view text) {
  BALLAST_TRY(const ConfigReader config, ConfigReader::parse(name, text));
  if (!config.has(kEnd)) return std::vector<uint64_t>();
  if (config.raw(kEnd)->starts_with('[')) return config.counts(kEnd);
  BALLAST_TRY(const uint64_t id, config.count(kEnd));
  return std::vector<uint64_t>{id};
}

}  // namespace

Result<std::vector<TokenId>> find_stop_tokens(const ModelFolder& folder) {
  std::vector<uint64_t> ids;
  if (folder.generation_config) {
    BALLAST_TRY(ids, end_tokens("generation_config.json", *folder.generation_config));
  }
  if (ids.empty() && folder.config) {
    BALLAST_TRY(ids, end_tokens("config.json", folder.config->text));
  }
  std::vector<TokenId> stops;
  for (const uint64_t id : ids) {
    // What no vocabulary holds never comes.
    if (id <= std::numeric_limits<TokenId>::max()) stops.push_back(static_cast<TokenId>(id));
  }
  return stops;
}

}  // namespace ballast
