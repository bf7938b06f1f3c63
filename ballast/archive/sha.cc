#include "ballast/archive/sha.h"

#include <openssl/evp.h>

namespace ballast {

struct ShaHasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() = default;
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

ShaHasher::ShaHasher(Kind kind) : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, kind == Kind::kSha1 ? EVP_sha1() : EVP_sha256(), nullptr);
}
ShaHasher::~ShaHasher() = default;
ShaHasher::ShaHasher(ShaHasher&&) noexcept = default;
ShaHasher& ShaHasher::operator=(ShaHasher&&) noexcept = default;

void ShaHasher::update(ByteSpan bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

std::string ShaHasher::finish_hex() {
  std::byte digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest), &length);
  return to_hex(ByteSpan(digest, length));
}

}  // namespace ballast
