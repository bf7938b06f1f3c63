// Pieces that the --json objects of several commands share. docs/command.md describes the objects.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/json.h"
#include "ballast/base/result.h"

namespace ballast::cli {

// A member of the object being written. Text need not be UTF-8: see json_text.
void add_text(JsonWriter& json, std::string_view key, std::string_view text);
void add_number(JsonWriter& json, std::string_view key, uint64_t number);
void add_boolean(JsonWriter& json, std::string_view key, bool value);
void add_null(JsonWriter& json, std::string_view key);

// {"code":"not_found","message":"..."}
void add_error(JsonWriter& json, std::string_view key, const Error& error);
// {"error":{...}}: what a command prints instead of its object when it could not do its work.
std::string error_object(const Error& error);

}  // namespace ballast::cli
