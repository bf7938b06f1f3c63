// Bytes inside JSON.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

// RFC 4648 with padding; kCorrupt for anything else.
Result<std::string> decode_base64(std::string_view text);

}  // namespace ballast
