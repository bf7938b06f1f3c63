// Looking into a JSON text without building a tree of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::testing {

// The raw text of the value at a path of keys and positions: json_at(text, "tensors/0/name") is "\"weight\"" with its
// quotes. "" when there is none. Fails the test when `text` is not exactly one JSON value.
std::string json_at(std::string_view text, std::string_view path);

// The keys of the object at `path`, in order.
std::vector<std::string> json_keys(std::string_view text, std::string_view path);

}  // namespace ballast::testing
