// A file of which only some ranges are in memory: JavaScript fetches those that a call turned out to need, and makes
// the call again.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ballast/base/byte_source.h"

namespace ballast::wasm {

struct MissingRange {
  uint32_t source;
  uint64_t offset;
  uint64_t length;
};

// What a call wanted to read and could not. Whatever the call answers is void then.
class MissingRanges {
 public:
  void add(uint32_t source, uint64_t offset, uint64_t length) { ranges_.push_back({source, offset, length}); }
  void clear() { ranges_.clear(); }
  bool empty() const { return ranges_.empty(); }
  const std::vector<MissingRange>& all() const { return ranges_; }

  // While set, what is missing reads as zeros, so that one pass finds everything that a call needs. Only for calls
  // whose reads do not depend on what they read.
  bool guesses = false;

 private:
  std::vector<MissingRange> ranges_;
};

class RangeSource final : public ByteSource {
 public:
  RangeSource(uint32_t id, uint64_t size, std::string name, MissingRanges& missing)
      : id_(id), size_(size), name_(std::move(name)), missing_(missing) {}

  // Takes over `bytes`, which were allocated with malloc.
  void put(uint64_t offset, std::byte* bytes, size_t length);
  void drop_all() { chunks_.clear(); }
  uint64_t cached_bytes() const;

  // Whether all of it is in memory; notes what is not.
  bool has(uint64_t offset, uint64_t length) const;

  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableByteSpan out) const override;
  // Never: chunks come and go between calls.
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return name_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::free(bytes); }
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> bytes;
    size_t length;
  };
  // visit(begin, end, bytes or null) for each stretch of [offset, offset + length), in order.
  template <typename Visit>
  void walk(uint64_t offset, uint64_t length, const Visit& visit) const;

  uint32_t id_;
  uint64_t size_;
  std::string name_;
  MissingRanges& missing_;
  std::map<uint64_t, Chunk> chunks_;  // by offset; none reaches into the next
};

}  // namespace ballast::wasm
