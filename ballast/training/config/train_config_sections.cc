#include "ballast/training/config/train_config_sections.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast::train_config {

Result<ConfigSection> Sections::open(std::string_view name) const {
  return open_in(root, name, fmt::format("[{}]", name));
}

Result<ConfigSection> Sections::open_in(const ConfigValue& table, std::string_view name, std::string title) const {
  const ConfigValue* section = table.find(name);
  if (section != nullptr && section->kind == ConfigValue::Kind::kNull) section = nullptr;
  if (section != nullptr && section->kind != ConfigValue::Kind::kTable) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {} is {}; it must be a table", file,
                                                               section->line, name, section->describe()));
  }
  return ConfigSection(file, folder, std::move(title), section);
}

bool goes_with(const TypedKey& row, std::string_view type) {
  return std::find(row.types.begin(), row.types.end(), type) != row.types.end();
}

void declare_foreign(ConfigSection& section, std::string_view choice_key, std::string_view type,
                     const std::vector<TypedKey>& rows) {
  for (const TypedKey& row : rows) {
    if (goes_with(row, type)) continue;
    std::string where;
    for (const std::string_view word : row.types)
      where += fmt::format("{}{} = \"{}\"", where.empty() ? "" : " or ", choice_key, word);
    section.foreign(row.key, fmt::format("{}, and this is \"{}\"", where, type));
  }
}

}  // namespace ballast::train_config
