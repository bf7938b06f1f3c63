#include "ballast/training/config/config_changes.h"

#include <fmt/format.h>

#include <map>

#include "ballast/training/config/config_tree.h"

namespace ballast {

namespace {

using KeyValues = std::map<std::string, std::string>;  // "[section] key" and its JSON

// What decides the numbers of a run and nothing else.
TrainConfig computing_part(TrainConfig config) {
  config.train.threads = 0;
  config.train.output.clear();
  config.checkpoint = {};
  config.log = {};
  return config;
}

void add_values(const std::string& section, const ConfigValue& table, KeyValues& values) {
  for (const ConfigMember& member : table.members) {
    if (member.value.kind == ConfigValue::Kind::kTable) {
      add_values(section.empty() ? member.name : section + "." + member.name, member.value, values);
      continue;
    }
    JsonWriter json;
    append_json(json, member.value);
    values[fmt::format("[{}] {}", section, member.name)] = json.take();
  }
}

KeyValues values_of(const TrainConfig& config) {
  KeyValues values;
  const auto tree = parse_config_json(computing_part(config).to_json(), "the configuration");
  if (tree) add_values("", *tree, values);
  return values;
}

}  // namespace

std::vector<std::string> describe_changes(const TrainConfig& before, const TrainConfig& now) {
  const KeyValues then = values_of(before), values = values_of(now);
  std::vector<std::string> changes;
  for (const auto& [key, value] : values) {
    const auto old = then.find(key);
    if (old == then.end()) changes.push_back(fmt::format("{} is {}, and was not set", key, value));
    else if (old->second != value) changes.push_back(fmt::format("{} is {}, and was {}", key, value, old->second));
  }
  for (const auto& [key, value] : then) {
    if (!values.contains(key)) changes.push_back(fmt::format("{} is not set, and was {}", key, value));
  }
  return changes;
}

}  // namespace ballast
