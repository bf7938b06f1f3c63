// Spans of bytes, little-endian loads and stores, and a bounded cursor over untrusted bytes.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline ByteSpan as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <std::unsigned_integral T>
T byte_swapped(T value) {
  if constexpr (sizeof(T) == 1) return value;
  else if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  else if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  else return __builtin_bswap64(value);
}

// Unaligned little-endian load; the caller has checked that sizeof(T) bytes are there.
template <std::unsigned_integral T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) value = byte_swapped(value);
  return value;
}

template <std::unsigned_integral T>
void store_le(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::big) value = byte_swapped(value);
  std::memcpy(to, &value, sizeof(T));
}

template <std::unsigned_integral T>
void append_le(std::string& out, T value) {
  std::byte buffer[sizeof(T)];
  store_le(buffer, value);
  out.append(reinterpret_cast<const char*>(buffer), sizeof(T));
}

// A cursor that cannot leave its span: every take_ returns nullopt instead of reading past the end.
class ByteCursor {
 public:
  explicit ByteCursor(ByteSpan bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return remaining() == 0; }

  template <std::unsigned_integral T>
  std::optional<T> take_le() {
    if (remaining() < sizeof(T)) return std::nullopt;
    const T value = load_le<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }

  std::optional<ByteSpan> take_bytes(uint64_t length) {
    if (length > remaining()) return std::nullopt;
    const ByteSpan taken = bytes_.subspan(position_, static_cast<size_t>(length));
    position_ += static_cast<size_t>(length);
    return taken;
  }

 private:
  ByteSpan bytes_;
  size_t position_ = 0;
};

// Lower-case hexadecimal.
std::string to_hex(ByteSpan bytes);
std::optional<ByteVector> parse_hex(std::string_view text);

}  // namespace ballast
