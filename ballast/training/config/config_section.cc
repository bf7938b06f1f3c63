#include "ballast/training/config/config_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/near_miss.h"

namespace ballast {

namespace {

using Kind = ConfigValue::Kind;

std::string describe_range(const RealRange& range) {
  const std::string least = fmt::format("{} {}", range.above ? "above" : "at least", range.least);
  if (range.most >= 1e308) return least;
  return fmt::format("{} and {} {}", least, range.below ? "below" : "at most", range.most);
}

bool is_inside(double value, const RealRange& range) {
  return std::isfinite(value) && (range.above ? value > range.least : value >= range.least) &&
         (range.below ? value < range.most : value <= range.most);
}

std::optional<double> number_in(const ConfigValue& value) {
  if (value.kind == Kind::kWhole) return static_cast<double>(value.whole);
  if (value.kind == Kind::kReal) return value.real;
  return std::nullopt;
}

// The word that was probably meant; capitals count for nothing.
std::string_view near_word(const std::string& text, const std::vector<std::string_view>& words) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto same = std::find(words.begin(), words.end(), lower);
  return same != words.end() ? *same : nearest(lower, words);
}

}  // namespace

ConfigSection::ConfigSection(const std::string& file, const std::string& folder, std::string title,
                             const ConfigValue* table)
    : file_(file), folder_(folder), title_(std::move(title)), table_(table) {}

std::string ConfigSection::place(uint64_t line) const {
  return line == 0 ? fmt::format("{}: {}", file_, title_) : fmt::format("{}:{}: {}", file_, line, title_);
}

Error ConfigSection::error(std::string_view key, std::string_view what) const {
  const ConfigValue* value = table_ == nullptr ? nullptr : table_->find(key);
  const uint64_t line = value != nullptr ? value->line : table_ != nullptr ? table_->line : 0;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} {} {}", place(line), key, what));
}

Error ConfigSection::wrong(std::string_view key, const ConfigValue& value, std::string_view wanted) const {
  return error(key, fmt::format("is {}; it must be {}", value.describe(), wanted));
}

const ConfigValue* ConfigSection::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const ConfigValue* value = table_ == nullptr ? nullptr : table_->find(key);
  return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
}

bool ConfigSection::has(std::string_view key) { return find(key) != nullptr; }

Result<uint64_t> ConfigSection::count(std::string_view key, uint64_t otherwise, uint64_t least, uint64_t most) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return otherwise;
  const bool fits = value->kind == Kind::kWhole && value->whole >= 0 && static_cast<uint64_t>(value->whole) >= least &&
                    static_cast<uint64_t>(value->whole) <= most;
  if (fits) return static_cast<uint64_t>(value->whole);
  const std::string range =
      most == INT64_MAX ? fmt::format("{} or more", least) : fmt::format("from {} to {}", least, most);
  return wrong(key, *value, fmt::format("a whole number, {}", range));
}

Result<double> ConfigSection::real(std::string_view key, double otherwise, const RealRange& range) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return otherwise;
  const auto number = number_in(*value);
  if (number && is_inside(*number, range)) return *number;
  return wrong(key, *value, fmt::format("a number, {}", describe_range(range)));
}

Result<bool> ConfigSection::truth(std::string_view key, bool otherwise) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->kind == Kind::kBool) return value->truth;
  return wrong(key, *value, "true or false");
}

Result<std::string> ConfigSection::text(std::string_view key, std::string otherwise) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->kind == Kind::kText) return value->text;
  return wrong(key, *value, "a text in quotes");
}

Result<std::string> ConfigSection::choice(std::string_view key, std::string_view otherwise,
                                          const std::vector<std::string_view>& words) {
  const std::string all = fmt::format("{}", fmt::join(words, ", "));
  const ConfigValue* value = find(key);
  if (value == nullptr && otherwise.empty()) return error(key, fmt::format("is missing; it must be one of {}", all));
  if (value == nullptr) return std::string(otherwise);
  if (value->kind == Kind::kText && std::find(words.begin(), words.end(), value->text) != words.end())
    return value->text;
  const std::string_view near = value->kind == Kind::kText ? near_word(value->text, words) : std::string_view();
  return wrong(key, *value,
               fmt::format("one of {}{}", all, near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
}

std::string ConfigSection::resolve(const ConfigValue& value) const {
  if (value.text.empty() || value.text.front() == '/' || value.from_command || folder_.empty() || folder_ == ".")
    return value.text;
  return folder_ + "/" + value.text;
}

Result<std::string> ConfigSection::path(std::string_view key) {
  BALLAST_CHECK(text(key, ""));
  const ConfigValue* value = find(key);
  return value == nullptr ? std::string() : resolve(*value);
}

Result<std::vector<std::string>> ConfigSection::paths(std::string_view key) {
  const ConfigValue* value = find(key);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (value->kind == Kind::kText) return std::vector{resolve(*value)};
  if (value->kind != Kind::kList) return wrong(key, *value, "a path, or a list of paths");
  for (ConfigValue item : value->items) {
    if (item.kind != Kind::kText) return error(key, fmt::format("holds {}; it must hold paths", item.describe()));
    item.from_command = value->from_command;
    all.push_back(resolve(item));
  }
  return all;
}

Result<std::vector<std::string>> ConfigSection::texts(std::string_view key) {
  const ConfigValue* value = find(key);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (value->kind == Kind::kText) return std::vector{value->text};
  if (value->kind != Kind::kList) return wrong(key, *value, "a text in quotes, or a list of them");
  for (const ConfigValue& item : value->items) {
    if (item.kind != Kind::kText) return error(key, fmt::format("holds {}; it must hold texts", item.describe()));
    all.push_back(item.text);
  }
  return all;
}

Result<std::vector<uint64_t>> ConfigSection::counts(std::string_view key, uint64_t least) {
  const ConfigValue* value = find(key);
  std::vector<uint64_t> all;
  if (value == nullptr) return all;
  const std::string wanted = fmt::format("a list of whole numbers, {} or more", least);
  if (value->kind != Kind::kList) return wrong(key, *value, wanted);
  for (const ConfigValue& item : value->items) {
    if (item.kind != Kind::kWhole || item.whole < 0 || static_cast<uint64_t>(item.whole) < least)
      return error(key, fmt::format("holds {}; it must be {}", item.describe(), wanted));
    all.push_back(static_cast<uint64_t>(item.whole));
  }
  return all;
}

Result<std::pair<double, double>> ConfigSection::two_reals(std::string_view key, std::pair<double, double> otherwise,
                                                           const RealRange& range) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return otherwise;
  const std::string wanted = fmt::format("a list of two numbers, each {}", describe_range(range));
  if (value->kind != Kind::kList || value->items.size() != 2) return wrong(key, *value, wanted);
  const auto first = number_in(value->items[0]);
  const auto second = number_in(value->items[1]);
  if (first && second && is_inside(*first, range) && is_inside(*second, range)) return std::pair(*first, *second);
  return error(
      key, fmt::format("is [{}, {}]; it must be {}", value->items[0].describe(), value->items[1].describe(), wanted));
}

Status ConfigSection::finish() const {
  if (table_ == nullptr) return {};
  for (const ConfigMember& member : table_->members) {
    if (std::find(known_.begin(), known_.end(), member.name) != known_.end()) continue;
    const uint64_t line = member.value.line;
    for (const auto& [key, where] : foreign_) {
      if (key != member.name) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{} {} means nothing here: it goes with {}", place(line), key, where));
    }
    std::vector<std::string_view> words(known_.begin(), known_.end());
    for (const auto& [alias, key] : aliases_) words.push_back(alias);
    std::string_view near = nearest(member.name, words);
    for (const auto& [alias, key] : aliases_) {
      if (near == alias) near = key;
    }
    std::vector<std::string> sorted = known_;
    std::sort(sorted.begin(), sorted.end());
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} has no key \"{}\"{}", place(line), member.name,
                                  near.empty() ? fmt::format("; it has {}", fmt::join(sorted, ", "))
                                               : fmt::format(": did you mean \"{}\"?", near)));
  }
  return {};
}

}  // namespace ballast
