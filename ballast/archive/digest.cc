#include "ballast/archive/digest.h"

#include <algorithm>
#include <numeric>

#include "ballast/archive/sha.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/archive/write.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"

namespace ballast {

namespace {

class HashingSink final : public ByteSink {
 public:
  HashingSink(const TensorInfo& info, bool with_sha256, SharedProgress& progress) : hasher_(info), progress_(progress) {
    if (with_sha256) sha256_ = std::make_unique<ShaHasher>(ShaHasher::Kind::kSha256);
  }

  Status write(ByteSpan bytes) override {
    constexpr size_t kChunk = size_t{4} << 20;
    while (!bytes.empty()) {
      const ByteSpan now = bytes.first(std::min(bytes.size(), kChunk));
      hasher_.update(now);
      if (sha256_) sha256_->update(now);
      taken_ += now.size();
      BALLAST_CHECK(progress_.add(now.size()));
      bytes = bytes.subspan(now.size());
    }
    return {};
  }
  Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "a digest has no past"); }
  uint64_t position() const override { return taken_; }

  TensorDigest finish() { return {hasher_.finish(), sha256_ ? sha256_->finish_hex() : std::string()}; }

 private:
  TensorHasher hasher_;
  SharedProgress& progress_;
  std::unique_ptr<ShaHasher> sha256_;
  uint64_t taken_ = 0;
};

// The largest first, so that the last to finish is a small one; the rest as they stand, which is how a disk reads them
// fastest. One tensor is the work of one thread: BLAKE3's library has no call for a part of its tree.
std::vector<size_t> order_of_work(std::span<const TensorInfo> tensors) {
  constexpr uint64_t kLarge = uint64_t{32} << 20;
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](size_t i) { return tensors[i].byte_size >= kLarge ? tensors[i].byte_size : 0; });
  return order;
}

}  // namespace

TensorHasher::TensorHasher(const TensorInfo& info) {
  const std::string type = info.type_name();
  hasher_.update(std::string_view("ballast:tensor:v1\0", 18));
  hasher_.update_le(static_cast<uint8_t>(type.size()));
  hasher_.update(type);
  hasher_.update_le(static_cast<uint32_t>(info.shape.rank()));
  for (const uint64_t dim : info.shape.dims()) hasher_.update_le(dim);
  hasher_.update_le(info.byte_size);
}

Result<std::vector<TensorDigest>> digest_plan(const WritePlan& plan, const DigestOptions& options) {
  return guarded([&]() -> Result<std::vector<TensorDigest>> {
    const auto& tensors = plan.description.tensors;
    uint64_t total = 0;
    for (const TensorInfo& tensor : tensors) total += tensor.byte_size;
    SharedProgress progress(options.progress, "hashing", total);
    std::vector<TensorDigest> digests(tensors.size());
    const std::vector<size_t> order = order_of_work(tensors);
    BALLAST_CHECK(progress.add(0));
    BALLAST_CHECK(parallel_for(tensors.size(), options.threads, [&](size_t position) -> Status {
      const size_t index = order[position];
      HashingSink sink(tensors[index], options.sha256, progress);
      BALLAST_CHECK(plan.providers[index](sink));
      digests[index] = sink.finish();
      return {};
    }));
    BALLAST_CHECK(progress.add(0));
    return digests;
  });
}

Result<std::vector<TensorDigest>> digest_tensors(const Archive& archive, const DigestOptions& options) {
  return digest_plan(make_plan(archive), options);
}

Digest archive_digest(std::span<const TensorInfo> tensors, std::span<const TensorDigest> digests) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) -> const std::string& { return tensors[i].name; });
  Blake3 hasher;
  hasher.update(std::string_view("ballast:archive:v1\0", 19));
  for (const size_t i : order) {
    hasher.update_le(static_cast<uint32_t>(tensors[i].name.size()));
    hasher.update(tensors[i].name);
    hasher.update(digests[i].blake3);
  }
  return hasher.finish();
}

}  // namespace ballast
