// What text models and tokenizers call a piece of text.
#pragma once

#include <cstdint>

namespace ballast {

using TokenId = uint32_t;

}  // namespace ballast
