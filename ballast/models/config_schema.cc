#include "ballast/models/config_schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/model_folder.h"

namespace ballast {

namespace {

Result<std::string> as_it_is(const ModelConfig& config, const Description&) { return config.text; }

Result<std::string> from_huggingface(const ModelConfig& config, const Description&) {
  return fmt::format(R"({{"kind": "decoder", "config": {{"huggingface": {}}}}})", config.text);
}

constexpr ConfigSchema kSchemas[] = {
    {"gptrs", as_it_is},
    {kHuggingFaceSchema, from_huggingface},
};

}  // namespace

const ConfigSchema* find_config_schema(std::string_view name) {
  const auto found = std::ranges::find(kSchemas, name, &ConfigSchema::name);
  return found == std::end(kSchemas) ? nullptr : found;
}

}  // namespace ballast
