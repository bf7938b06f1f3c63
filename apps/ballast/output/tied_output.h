// How commands tell of tied tensors.
#pragma once

#include <span>

#include "apps/ballast/terminal/console.h"
#include "ballast/archive/tied.h"
#include "ballast/base/json.h"

namespace ballast::cli {

// A heading and one line per group; nothing without groups.
void print_tied(const Archive& archive, std::span<const TiedGroup> groups, Console& console);

// "tied": [{"names": [...], "stored_once": true}]
void add_tied(JsonWriter& json, const Archive& archive, std::span<const TiedGroup> groups);

}  // namespace ballast::cli
