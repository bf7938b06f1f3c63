// Looking into a JSON text without building a tree of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::testing {

// The raw text of the value at a path of keys and positions: json_at(text, "tensors/0/name") is "\"weight\"" with its
// quotes. "" when there is none. Fails the test when `text` is not exactly one JSON value.
std::string json_at(std::string_view text, std::string_view path);

// The keys of the object at `path`, in order.
std::vector<std::string> json_keys(std::string_view text, std::string_view path);

// Its members, each with the raw text of its value, in order: for keys that hold a slash.
std::vector<std::pair<std::string, std::string>> json_members(std::string_view text, std::string_view path);

// The text that a raw JSON string stands for; "" where it is none.
std::string json_string(std::string_view raw);

}  // namespace ballast::testing
