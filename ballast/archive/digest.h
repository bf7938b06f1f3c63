// Content digests, fixed for ever: they depend on neither order nor container.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ballast/base/hash.h"
#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"

namespace ballast {

struct WritePlan;

// BLAKE3 of "ballast:tensor:v1\0", u8 length and bytes of the type name, u32 rank, u64 dims, u64 payload length,
// payload.
class TensorHasher {
 public:
  explicit TensorHasher(const TensorInfo& info);
  void update(ByteSpan payload) { hasher_.update(payload); }
  Digest finish() const { return hasher_.finish(); }

 private:
  Blake3 hasher_;
};

struct TensorDigest {
  Digest blake3;       // the content digest
  std::string sha256;  // of the canonical payload alone, hexadecimal; empty unless asked for
};

struct DigestOptions {
  bool sha256 = false;
  unsigned threads = 0;  // 0: as many as the machine has; the result is the same for any number
  Progress progress;
};

// One digest per tensor, in the archive's order.
Result<std::vector<TensorDigest>> digest_tensors(const Archive& archive, const DigestOptions& options = {});

// The same for tensors that are about to be written. Providers are called from several threads at once.
Result<std::vector<TensorDigest>> digest_plan(const WritePlan& plan, const DigestOptions& options = {});

// BLAKE3 of "ballast:archive:v1\0", then for each tensor in byte order of names: u32 length, name, its digest.
Digest archive_digest(std::span<const TensorInfo> tensors, std::span<const TensorDigest> digests);

}  // namespace ballast
