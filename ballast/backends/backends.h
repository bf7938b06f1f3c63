// The table of backends.
#pragma once

#include <span>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/ops/backend.h"

namespace ballast {

// All backends there are, the default first.
std::span<const Backend* const> all_backends();
// Null where there is none of that name.
const Backend* find_backend(std::string_view name);
// The default where the name is empty; kInvalidArgument names those there are.
Result<const Backend*> choose_backend(std::string_view name);

}  // namespace ballast
