#include "bindings/wasm/range_source.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ballast/base/checked.h"

namespace ballast::wasm {

template <typename Visit>
void RangeSource::walk(uint64_t offset, uint64_t length, const Visit& visit) const {
  const uint64_t end = offset + length;
  uint64_t at = offset;
  while (at < end) {
    const auto next = chunks_.upper_bound(at);
    if (next != chunks_.begin()) {
      const auto& [begin, chunk] = *std::prev(next);
      if (begin + chunk.length > at) {
        const uint64_t until = std::min(end, begin + chunk.length);
        visit(at, until, chunk.bytes.get() + (at - begin));
        at = until;
        continue;
      }
    }
    const uint64_t until = next == chunks_.end() ? end : std::min(end, next->first);
    visit(at, until, nullptr);
    at = until;
  }
}

void RangeSource::put(uint64_t offset, std::byte* bytes, size_t length) {
  std::unique_ptr<std::byte, Free> owned(bytes);
  if (length == 0 || !range_fits(offset, length, size_)) return;
  std::vector<std::pair<uint64_t, size_t>> gaps;  // what is not there yet
  walk(offset, length, [&](uint64_t begin, uint64_t end, const std::byte* known) {
    if (known == nullptr) gaps.emplace_back(begin, static_cast<size_t>(end - begin));
  });
  if (gaps.size() == 1 && gaps.front().second == length) {
    chunks_[offset] = {std::move(owned), length};
    return;
  }
  for (const auto& [begin, count] : gaps) {
    auto* const copy = static_cast<std::byte*>(malloc(count));
    if (copy == nullptr) return;  // it is still missing, and will be asked for again
    std::memcpy(copy, bytes + (begin - offset), count);
    chunks_[begin] = {std::unique_ptr<std::byte, Free>(copy), count};
  }
}

uint64_t RangeSource::cached_bytes() const {
  uint64_t sum = 0;
  for (const auto& [offset, chunk] : chunks_) sum += chunk.length;
  return sum;
}

bool RangeSource::has(uint64_t offset, uint64_t length) const {
  if (!range_fits(offset, length, size_)) return true;  // reading it will be an error
  bool all = true;
  walk(offset, length, [&](uint64_t begin, uint64_t end, const std::byte* bytes) {
    if (bytes != nullptr) return;
    missing_.add(id_, begin, end - begin);
    all = false;
  });
  return all;
}

Status RangeSource::read_at(uint64_t offset, MutableByteSpan out) const {
  if (!range_fits(offset, out.size(), size_)) return past_the_end(*this, offset, out.size());
  bool all = true;
  walk(offset, out.size(), [&](uint64_t begin, uint64_t end, const std::byte* bytes) {
    std::byte* const to = out.data() + (begin - offset);
    if (bytes != nullptr) {
      std::memcpy(to, bytes, end - begin);
      return;
    }
    missing_.add(id_, begin, end - begin);
    std::memset(to, 0, end - begin);
    all = false;
  });
  if (all || missing_.guesses) return {};
  return make_error(ErrorCode::kIo, name_ + ": these bytes have not been fetched yet");
}

}  // namespace ballast::wasm
