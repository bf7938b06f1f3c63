#include "ballast/base/hash.h"

#include <blake3.h>

namespace ballast {

namespace {

// libblake3 1.3 keeps what the processor can do in a plain variable that every thread writes which finds it unset. The
// first hash is therefore made once, before any other, whichever thread comes first.
void find_processor_features() {
  [[maybe_unused]] static const bool found = [] {
    blake3_hasher hasher;
    uint8_t digest[BLAKE3_OUT_LEN];
    blake3_hasher_init(&hasher);
    blake3_hasher_finalize(&hasher, digest, sizeof(digest));
    return true;
  }();
}

}  // namespace

struct Blake3::State {
  blake3_hasher hasher;
};

Blake3::Blake3() : state_(std::make_unique<State>()) {
  find_processor_features();
  blake3_hasher_init(&state_->hasher);
}
Blake3::~Blake3() = default;
Blake3::Blake3(Blake3&&) noexcept = default;
Blake3& Blake3::operator=(Blake3&&) noexcept = default;

void Blake3::update(ByteSpan bytes) { blake3_hasher_update(&state_->hasher, bytes.data(), bytes.size()); }

Digest Blake3::finish() const {
  Digest out;
  blake3_hasher_finalize(&state_->hasher, reinterpret_cast<uint8_t*>(out.data()), out.size());
  return out;
}

Digest blake3(ByteSpan bytes) {
  Blake3 hasher;
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace ballast
