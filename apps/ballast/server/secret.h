// Texts that nobody can guess.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/hash.h"
#include "ballast/base/result.h"

namespace ballast::cli {

// 128 random bits of the system, as 32 lower-case hex digits.
Result<std::string> make_secret();

// These take equally long whether or not both are the same, and however much of them is; a text takes as long as it is.
bool same_digest(const Digest& a, const Digest& b);
bool is_secret(std::string_view given, std::string_view secret);

}  // namespace ballast::cli
