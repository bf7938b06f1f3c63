#include "ballast/text/tokenizer/base64.h"

#include <fmt/format.h>

#include <cstdint>

namespace ballast {

Result<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) {
    return make_error(ErrorCode::kCorrupt, fmt::format("base64 text of {} characters, no multiple of 4", text.size()));
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = i >= text.size() - padding ? 0 : kDigits.find(text[i]);
    if (digit == std::string_view::npos) {
      return make_error(ErrorCode::kCorrupt, fmt::format("base64 text with another character at {}", i));
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace ballast
