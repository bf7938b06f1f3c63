// SHA-1 and SHA-256, under which other programs know whole files.
#pragma once

#include <memory>
#include <string>

#include "ballast/base/bytes.h"

namespace ballast {

class ShaHasher {
 public:
  enum class Kind : uint8_t { kSha1, kSha256 };

  explicit ShaHasher(Kind kind);
  ~ShaHasher();
  ShaHasher(ShaHasher&&) noexcept;
  ShaHasher& operator=(ShaHasher&&) noexcept;

  void update(ByteSpan bytes);
  // Once. In hexadecimal, lower case.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast
