#include "apps/ballast/server/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace ballast::cli {

Result<std::string> make_secret() {
  unsigned char bits[16] = {};
  ssize_t count = 0;
  do count = ::getrandom(bits, sizeof bits, 0);
  while (count < 0 && errno == EINTR);
  if (count != ssize_t{sizeof bits})
    return make_error(ErrorCode::kIo, fmt::format("the system gives no random numbers: {}", std::strerror(errno)));
  std::string text;
  for (const unsigned char byte : bits) text += fmt::format("{:02x}", byte);
  return text;
}

bool same_digest(const Digest& a, const Digest& b) {
  std::byte differences{0};
  for (size_t i = 0; i < a.size(); ++i) differences |= a[i] ^ b[i];
  return differences == std::byte{0};
}

// By digests, so that not even the length of the secret shows.
bool is_secret(std::string_view given, std::string_view secret) {
  return same_digest(blake3(as_bytes(given)), blake3(as_bytes(secret)));
}

}  // namespace ballast::cli
