// The plain functions are marked as deprecated since OpenSSL 3.0. They stay in use because they allocate nothing and so
// cannot fail; EVP does, and crashes inside OpenSSL where memory runs out while it sets itself up.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "ballast/archive/sha.h"

#include <openssl/sha.h>

namespace ballast {

struct ShaHasher::State {
  Kind kind;
  SHA_CTX sha1;
  SHA256_CTX sha256;
};

ShaHasher::ShaHasher(Kind kind) : state_(std::make_unique<State>()) {
  state_->kind = kind;
  SHA1_Init(&state_->sha1);
  SHA256_Init(&state_->sha256);
}
ShaHasher::~ShaHasher() = default;
ShaHasher::ShaHasher(ShaHasher&&) noexcept = default;
ShaHasher& ShaHasher::operator=(ShaHasher&&) noexcept = default;

void ShaHasher::update(ByteSpan bytes) {
  if (state_->kind == Kind::kSha1) SHA1_Update(&state_->sha1, bytes.data(), bytes.size());
  else SHA256_Update(&state_->sha256, bytes.data(), bytes.size());
}

std::string ShaHasher::finish_hex() {
  std::byte digest[SHA256_DIGEST_LENGTH];
  auto* const out = reinterpret_cast<unsigned char*>(digest);
  const bool is_sha1 = state_->kind == Kind::kSha1;
  if (is_sha1) SHA1_Final(out, &state_->sha1);
  else SHA256_Final(out, &state_->sha256);
  return to_hex(ByteSpan(digest, is_sha1 ? SHA_DIGEST_LENGTH : SHA256_DIGEST_LENGTH));
}

}  // namespace ballast
