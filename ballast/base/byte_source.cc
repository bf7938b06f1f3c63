#include "ballast/base/byte_source.h"

#include <algorithm>
#include <array>

#include "ballast/base/checked.h"

namespace ballast {

Error past_the_end(const ByteSource& source, uint64_t offset, uint64_t length) {
  return make_error(ErrorCode::kCorrupt, source.name() + ": bytes " + std::to_string(offset) + " to " +
                                             std::to_string(offset) + "+" + std::to_string(length) +
                                             " are asked for, but there are only " + std::to_string(source.size()));
}

std::shared_ptr<MemorySource> MemorySource::owning(ByteVector bytes, std::string name) {
  return std::shared_ptr<MemorySource>(new MemorySource(std::move(bytes), std::move(name)));
}

std::shared_ptr<MemorySource> MemorySource::borrowing(ByteSpan bytes, std::string name) {
  return std::shared_ptr<MemorySource>(new MemorySource(bytes, std::move(name)));
}

Status MemorySource::read_at(uint64_t offset, MutableByteSpan out) const {
  const auto from = view(offset, out.size());
  if (!from) return past_the_end(*this, offset, out.size());
  std::copy(from->begin(), from->end(), out.begin());
  return {};
}

std::optional<ByteSpan> MemorySource::view(uint64_t offset, uint64_t length) const {
  if (!range_fits(offset, length, bytes_.size())) return std::nullopt;
  return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Error too_large_for_memory(const ByteSource& source, uint64_t size) {
  return make_error(ErrorCode::kOutOfMemory, source.name() + ": " + std::to_string(size) +
                                                 " bytes are needed in memory at once, more than a program of " +
                                                 std::to_string(8 * sizeof(size_t)) + " bits can have");
}

Result<ByteVector> make_bytes(const ByteSource& source, uint64_t size) {
  const auto wanted = checked_size(size);
  if (!wanted) return too_large_for_memory(source, size);
  return ByteVector(*wanted);
}

Result<ByteVector> read_bytes(const ByteSource& source, uint64_t offset, uint64_t length) {
  if (!range_fits(offset, length, source.size())) return past_the_end(source, offset, length);
  BALLAST_TRY(ByteVector out, make_bytes(source, length));
  BALLAST_CHECK(source.read_at(offset, out));
  return out;
}

Result<BytesOrView> BytesOrView::of(const ByteSource& source, uint64_t offset, uint64_t length) {
  if (const auto view = source.view(offset, length)) return BytesOrView(*view);
  BALLAST_TRY(ByteVector owned, read_bytes(source, offset, length));
  return BytesOrView(std::move(owned));
}

Status ByteSink::write_zeros(uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (count > 0) {
    const size_t now = static_cast<size_t>(std::min<uint64_t>(count, kZeros.size()));
    BALLAST_CHECK(write(ByteSpan(kZeros).first(now)));
    count -= now;
  }
  return {};
}

Status MemorySink::write(ByteSpan bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return {};
}

Status MemorySink::patch(uint64_t offset, ByteSpan bytes) {
  if (!range_fits(offset, bytes.size(), bytes_.size())) {
    return make_error(ErrorCode::kInvalidArgument, "patch outside of what was written");
  }
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<ptrdiff_t>(offset));
  return {};
}

Status SpanSink::write(ByteSpan bytes) {
  if (bytes.size() > out_.size() - position_) {
    return make_error(ErrorCode::kInvalidArgument,
                      "more than the " + std::to_string(out_.size()) + " bytes that were expected");
  }
  std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<ptrdiff_t>(position_));
  position_ += bytes.size();
  return {};
}

Status SpanSink::patch(uint64_t offset, ByteSpan bytes) {
  if (!range_fits(offset, bytes.size(), position_)) {
    return make_error(ErrorCode::kInvalidArgument, "patch outside of what was written");
  }
  std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<ptrdiff_t>(offset));
  return {};
}

Status SpanSink::finish() const {
  if (position_ == out_.size()) return {};
  return make_error(ErrorCode::kInvalidArgument, std::to_string(position_) + " bytes instead of " +
                                                     std::to_string(out_.size()) + " that were expected");
}

}  // namespace ballast
