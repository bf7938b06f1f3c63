// Archives made in memory without any format: tensors as a test states them, in any stored form.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ballast/formats/archive.h"
#include "ballast/formats/payload_order.h"
#include "tests/support/bytes_of.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

// A source that cannot be viewed, like a file behind positional reads.
class ReadOnlySource final : public ByteSource {
 public:
  explicit ReadOnlySource(ByteVector bytes) : memory_(MemorySource::owning(std::move(bytes), "read")) {}

  uint64_t size() const override { return memory_->size(); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override { return memory_->read_at(offset, out); }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return memory_->name(); }

 private:
  std::shared_ptr<MemorySource> memory_;
};

using F32 = std::vector<float>;
using U8 = std::vector<uint8_t>;

class MemoryArchive {
 public:
  template <typename T>
  MemoryArchive& add(const std::string& name, DType dtype, const Shape& shape, const std::vector<T>& values) {
    return add_bytes(make_info(name, dtype, shape), bytes_of(values));
  }

  MemoryArchive& add_bytes(TensorInfo info, ByteSpan payload) {
    info.byte_size = payload.size();
    extents_.push_back({.offset = bytes_.size(), .length = payload.size()});
    bytes_.insert(bytes_.end(), payload.begin(), payload.end());
    description_.tensors.push_back(std::move(info));
    return *this;
  }

  // Stores the tensor added last with its bytes swapped.
  MemoryArchive& make_big_endian() {
    StoredExtent& extent = extents_.back();
    swap_byte_order(description_.tensors.back().dtype, MutableByteSpan(bytes_).subspan(extent.offset, extent.length));
    extent.big_endian = true;
    return *this;
  }

  Archive build() const { return Archive(description_, extents_, {MemorySource::owning(bytes_)}); }
  Archive build_unviewable() const {
    return Archive(description_, extents_, {std::make_shared<ReadOnlySource>(bytes_)});
  }

 private:
  Description description_;
  std::vector<StoredExtent> extents_;
  ByteVector bytes_;
};

}  // namespace ballast::testing
