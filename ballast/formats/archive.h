// An opened archive: a validated description and lazy access to the payloads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/base/param_id.h"
#include "ballast/formats/description.h"

namespace ballast {

// What a tensor takes from a run of elements that is longer, shorter or in another order than its payload: element
// (i, j, ...) of the tensor, with i below sizes[0] and so on, is element i * strides[0] + j * strides[1] + ... of it.
struct StridedView {
  std::vector<uint64_t> sizes;  // the shape, but for types that share bytes: they count bytes here
  std::vector<uint64_t> strides;
  uint64_t run_size = 0;      // bytes of the run, from the tensor's first element to the last one that it uses
  uint32_t element_size = 0;  // bytes
  bool conjugate = false;     // the tensor holds the conjugates of what is stored
  bool negate = false;        // and, or, their negatives
};

// Where a tensor's stored bytes lie, and what must be undone to make them canonical.
struct StoredExtent {
  uint64_t offset = 0;  // of the stored bytes in their source
  uint64_t length = 0;  // stored length: compressed where compressed
  // Bytes of the container's member around the payload (an NPY header; the rest of a storage that the tensor is a slice
  // of). A stored payload begins at `offset`, so its member begins `member_prefix` before it; a deflated member begins
  // at `offset` and inflates to prefix + payload + suffix.
  uint64_t member_prefix = 0;
  uint64_t member_suffix = 0;
  std::optional<uint32_t> crc32 = std::nullopt;  // of the whole member, where the container has one
  uint16_t source = 0;                           // which of the archive's sources (shards)
  bool deflated = false;
  bool big_endian = false;
  bool fortran_order = false;
  // Where set, what lies at `offset` is the run of this view instead of the payload.
  std::shared_ptr<const StridedView> view = nullptr;

  bool is_canonical() const { return !deflated && !big_endian && !fortran_order && view == nullptr; }
};

// A payload in canonical form. It may point into the archive's source, so it must not outlive the archive.
using Payload = BytesOrView;

// Whether reading a payload also checks the container's own checksum, where it has one (zip).
enum class Checksum : uint8_t { kCheck, kSkip };

// Opening has validated every extent against its source, so that no method here can read out of bounds, and names are
// unique. All const methods may be called from several threads. Copies share the sources.
class Archive {
 public:
  Archive(Description description, std::vector<StoredExtent> extents,
          std::vector<std::shared_ptr<const ByteSource>> sources);

  const Description& description() const { return description_; }
  // For a config that stands beside the file.
  void set_config(ModelConfig config) { description_.config = std::move(config); }
  std::span<const TensorInfo> tensors() const { return description_.tensors; }
  const StoredExtent& extent(size_t index) const { return extents_[index]; }
  std::span<const std::shared_ptr<const ByteSource>> sources() const { return sources_; }
  // Bytes on disk of all sources together.
  uint64_t stored_size() const;

  // Position of the tensor called `name`; O(log n) at worst.
  std::optional<size_t> find(std::string_view name) const;
  // Of the tensor whose name has this id, whether the file stores ids or not. The first call computes all ids.
  std::optional<size_t> find(const BaseParamId& id) const;

  // The canonical payload: a view into the source where the stored form is canonical and the source can be viewed,
  // otherwise one copy. Views of unaligned files are unaligned: copy before casting to a wider type.
  Result<Payload> payload(size_t index, Checksum checksum = Checksum::kCheck) const;
  // The same, copied where the view's address is not a multiple of `alignment` (at most that of new: 16).
  Result<Payload> aligned_payload(size_t index, size_t alignment) const;
  // The same into memory of the caller; `out` must have byte_size bytes.
  Status read_into(size_t index, MutableByteSpan out, Checksum checksum = Checksum::kCheck) const;
  // Part of a canonical payload. Only a canonical extent is read in part; others cost a whole read.
  Status read_range(size_t index, uint64_t offset, MutableByteSpan out) const;
  // Writes a compressed payload to `sink` in pieces, checksum checked, in at most kStreamMemory bytes of memory
  // whatever it inflates to. One in column-major order that is larger is unpacked several times for that. The checksum
  // is known last: `sink` must be able to throw away what it got. Other payloads: payload().
  Status stream_deflated(size_t index, ByteSink& sink) const;
  static constexpr uint64_t kStreamMemory = uint64_t{64} << 20;
  // Checks the container's own checksum, where it has one, without keeping the payload.
  Status check_crc(size_t index) const;

 private:
  const ByteSource& source_of(size_t index) const { return *sources_[extents_[index].source]; }
  Status check_stored_crc(size_t index) const;
  Result<ByteVector> read_stored(size_t index, Checksum checksum) const;
  Result<ByteVector> read_strided(size_t index, Checksum checksum) const;
  using TakePiece = std::function<Status(uint64_t offset, MutableByteSpan piece)>;
  Status inflate_member(size_t index, uint64_t unit, const TakePiece& take) const;
  Status stream_column_major(size_t index, ByteSink& sink) const;

  Description description_;
  std::vector<StoredExtent> extents_;
  std::vector<std::shared_ptr<const ByteSource>> sources_;
  struct Index;  // of names and ids
  std::shared_ptr<const Index> index_;
};

// Positions of tensors whose name an earlier tensor has too, ascending. For validators.
std::vector<size_t> find_duplicate_names(std::span<const TensorInfo> tensors);
// Positions of tensors whose name a later tensor has too, ascending: for formats whose readers let the last one win.
std::vector<size_t> find_shadowed_names(std::span<const TensorInfo> tensors);

}  // namespace ballast
