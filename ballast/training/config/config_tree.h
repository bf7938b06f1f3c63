// A configuration file as values, before anybody knows what they mean. TOML and JSON become the same tree, so that one
// validator serves both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/base/result.h"

namespace ballast {

struct ConfigMember;

struct ConfigValue {
  enum class Kind : uint8_t { kNull, kBool, kWhole, kReal, kText, kList, kTable };

  Kind kind = Kind::kNull;
  uint64_t line = 0;          // where it stands; 0: not known
  bool from_command = false;  // it came with the command line, not from the file
  bool truth = false;
  int64_t whole = 0;
  double real = 0;
  std::string text;
  std::vector<ConfigValue> items;     // kList
  std::vector<ConfigMember> members;  // kTable, names are unique

  const ConfigValue* find(std::string_view name) const;
  ConfigValue* find(std::string_view name);
  // "a table", "the text \"x\"", "12": for errors.
  std::string describe() const;
};

struct ConfigMember {
  std::string name;
  ConfigValue value;
};

// `where` names the file in errors. Files of more than a mebibyte are refused; so is nesting deeper than 64.
Result<ConfigValue> parse_config_json(std::string_view text, const std::string& where);
Result<ConfigValue> parse_config_toml(std::string_view text, const std::string& where);

// By the name's ending: .json is JSON, .toml is TOML; anything else by its first character.
Result<ConfigValue> read_config_file(const std::string& path);

// "section.key=value", as --set gives it: puts the value into the tree, where it replaces what is there. The value is
// read as JSON (12, true, [1, 2], "x"), and as text where it is none.
Status set_config_value(ConfigValue& root, std::string_view assignment);

void append_json(JsonWriter& json, const ConfigValue& value);

}  // namespace ballast
