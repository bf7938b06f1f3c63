// BLAKE3, the digest behind parameter identity and content digests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "ballast/base/bytes.h"

namespace ballast {

using Digest = std::array<std::byte, 32>;

class Blake3 {
 public:
  Blake3();
  ~Blake3();
  Blake3(Blake3&&) noexcept;
  Blake3& operator=(Blake3&&) noexcept;

  void update(ByteSpan bytes);
  void update(std::string_view text) { update(as_bytes(text)); }
  template <std::unsigned_integral T>
  void update_le(T value) {
    std::byte buffer[sizeof(T)];
    store_le(buffer, value);
    update(ByteSpan(buffer));
  }
  Digest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest blake3(ByteSpan bytes);

}  // namespace ballast
