#include "tests/support/json_path.h"

#include <gtest/gtest.h>

#include "ballast/base/json.h"

namespace ballast::testing {

namespace {

// The member of `container`, or "" where there is none.
Result<std::string_view> member_of(std::string_view container, std::string_view wanted) {
  JsonReader reader(container, "json");
  BALLAST_TRY(const JsonType type, reader.peek());
  std::string key;
  if (type == JsonType::kObject) BALLAST_CHECK(reader.enter_object());
  else BALLAST_CHECK(reader.enter_array());
  for (size_t position = 0;; ++position) {
    BALLAST_TRY(const bool more, type == JsonType::kObject ? reader.next_key(key) : reader.next_element());
    if (!more) return std::string_view();
    if (type == JsonType::kArray) key = std::to_string(position);
    BALLAST_TRY(const std::string_view value, reader.read_raw());
    if (key == wanted) return value;
  }
}

std::string_view value_at(std::string_view text, std::string_view path) {
  JsonReader whole(text, "json");
  EXPECT_TRUE(whole.skip_value() && whole.finish()) << "not one JSON value: " << text.substr(0, 400);
  std::string_view value = text;
  while (!path.empty() && !value.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    const auto member = member_of(value, part);
    value = member ? *member : std::string_view();
  }
  return value;
}

}  // namespace

std::string json_at(std::string_view text, std::string_view path) { return std::string(value_at(text, path)); }

std::vector<std::string> json_keys(std::string_view text, std::string_view path) {
  std::vector<std::string> keys;
  for (auto& [key, value] : json_members(text, path)) keys.push_back(std::move(key));
  return keys;
}

std::vector<std::pair<std::string, std::string>> json_members(std::string_view text, std::string_view path) {
  JsonReader reader(value_at(text, path), "json");
  std::vector<std::pair<std::string, std::string>> members;
  std::string key;
  EXPECT_TRUE(reader.enter_object()) << "no object at " << path;
  while (reader.next_key(key).value()) members.emplace_back(key, reader.read_raw().value());
  return members;
}

std::string json_string(std::string_view raw) {
  JsonReader reader(raw, "json");
  const auto text = reader.read_string();
  return text ? std::string(*text) : "";
}

}  // namespace ballast::testing
