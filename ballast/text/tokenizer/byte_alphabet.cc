#include "ballast/text/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "ballast/base/utf8.h"

namespace ballast {

namespace {

struct ByteAlphabet {
  std::array<uint16_t, 256> letters{};      // by byte
  std::array<int16_t, 0x100 + 68> bytes{};  // by letter; -1 for those that spell none
};

constexpr ByteAlphabet kByteAlphabet = [] {
  ByteAlphabet alphabet;
  for (int16_t& byte : alphabet.bytes) byte = -1;
  uint16_t next = 0x100;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const uint16_t letter = printable ? byte : next++;
    alphabet.letters[byte] = letter;
    alphabet.bytes[letter] = static_cast<int16_t>(byte);
  }
  return alphabet;
}();

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, kByteAlphabet.letters[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto letter = take_code_point(text, at);
    if (!letter || *letter >= kByteAlphabet.bytes.size() || kByteAlphabet.bytes[*letter] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteAlphabet.bytes[*letter]);
  }
  return bytes;
}

}  // namespace ballast
