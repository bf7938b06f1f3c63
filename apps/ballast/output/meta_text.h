// Single metadata values, for tables and for --json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/json.h"
#include "ballast/formats/description.h"

namespace ballast::cli {

// "(none)" for an absent one; of a list the first elements.
std::string meta_text(const std::optional<MetaValue>& value);
// A member of the object being written; a list as text, null where there is no value.
void add_meta(JsonWriter& json, std::string_view key, const std::optional<MetaValue>& value);

}  // namespace ballast::cli
