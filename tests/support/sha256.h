// SHA-256 as hexadecimal text, for comparing with digests that other programs wrote down.
#pragma once

#include <string>

#include "ballast/base/bytes.h"

namespace ballast::testing {

std::string sha256_hex(ByteSpan bytes);

}  // namespace ballast::testing
