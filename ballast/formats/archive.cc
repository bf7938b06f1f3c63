#include "ballast/formats/archive.h"

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/id_index.h"
#include "ballast/formats/name_index.h"
#include "ballast/formats/payload_order.h"

namespace ballast {

namespace {

// Stored bytes into memory, a piece at a time while the source is told what comes next: a disk then always has several
// requests to work on.
Status read_plain(const ByteSource& source, uint64_t offset, MutableByteSpan out) {
  constexpr size_t kPiece = size_t{4} << 20;
  constexpr size_t kWindow = 8 * kPiece;
  if (out.size() > kPiece) source.prefetch(offset, std::min(out.size(), kWindow));
  for (size_t at = 0; at < out.size(); at += kPiece) {
    if (at + kWindow < out.size()) source.prefetch(offset + at + kWindow, std::min(kPiece, out.size() - at - kWindow));
    BALLAST_CHECK(source.read_at(offset + at, out.subspan(at, std::min(kPiece, out.size() - at))));
  }
  return {};
}

enum class Namesake : uint8_t { kEarlier, kLater };

// Positions of all tensors of a name but the first (kLater) or the last (kEarlier), ascending.
std::vector<size_t> find_namesakes(std::span<const TensorInfo> tensors, Namesake which) {
  std::vector<size_t> found;
  if (!NameIndex(tensors).has_duplicates()) return found;
  const std::vector<uint32_t> order = positions_by_name(tensors);
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name != tensors[order[i - 1]].name) continue;
    found.push_back(which == Namesake::kLater ? order[i] : order[i - 1]);
  }
  std::ranges::sort(found);
  return found;
}

Error crc_mismatch(const ByteSource& source, const TensorInfo& tensor, uint32_t stored, uint32_t found) {
  return make_error(ErrorCode::kCorrupt, source.name() + ": tensor \"" + tensor.name + "\": CRC-32 is " +
                                             std::to_string(found) + ", the archive says " + std::to_string(stored) +
                                             "; its bytes were damaged after it was written");
}

// Goes through the elements of a tensor as column-major order has them, and tells where row-major order does.
class ColumnMajorWalk {
 public:
  explicit ColumnMajorWalk(const Shape& shape) : sizes_(shape.dims().begin(), shape.dims().end()) {
    at_.resize(sizes_.size());
    strides_.resize(sizes_.size());
    uint64_t stride = 1;
    for (size_t i = sizes_.size(); i-- > 0; stride *= sizes_[i]) strides_[i] = stride;
  }
  uint64_t row_major() const { return place_; }
  void advance() {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      place_ += strides_[i];
      if (++at_[i] < sizes_[i]) return;
      place_ -= strides_[i] * sizes_[i];
      at_[i] = 0;
    }
  }

 private:
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> strides_;
  std::vector<uint64_t> at_;
  uint64_t place_ = 0;
};

}  // namespace

std::vector<size_t> find_duplicate_names(std::span<const TensorInfo> tensors) {
  return find_namesakes(tensors, Namesake::kLater);
}

std::vector<size_t> find_shadowed_names(std::span<const TensorInfo> tensors) {
  return find_namesakes(tensors, Namesake::kEarlier);
}

struct Archive::Index {
  NameIndex by_name;
  IdIndex by_id;
};

Archive::Archive(Description description, std::vector<StoredExtent> extents,
                 std::vector<std::shared_ptr<const ByteSource>> sources)
    : description_(std::move(description)),
      extents_(std::move(extents)),
      sources_(std::move(sources)),
      index_(std::make_shared<const Index>(Index{NameIndex(description_.tensors), IdIndex()})) {}

std::optional<size_t> Archive::find(std::string_view name) const {
  return index_->by_name.find(description_.tensors, name);
}

std::optional<size_t> Archive::find(const BaseParamId& id) const {
  return index_->by_id.find(description_.tensors, id);
}

uint64_t Archive::stored_size() const {
  uint64_t total = 0;
  for (const auto& source : sources_) total += source->size();
  return total;
}

Status Archive::check_stored_crc(size_t index) const {
  const StoredExtent& extent = extents_[index];
  if (!extent.crc32) return {};
  const ByteSource& source = source_of(index);
  uint64_t at = extent.offset - extent.member_prefix;
  uint64_t left = extent.member_prefix + extent.length + extent.member_suffix;
  uint32_t crc = 0;
  constexpr uint64_t kChunk = 1 << 20;
  while (left > 0) {
    const uint64_t now = std::min(left, kChunk);
    BALLAST_TRY(const BytesOrView chunk, BytesOrView::of(source, at, now));
    crc = crc32_of(chunk.bytes(), crc);
    at += now;
    left -= now;
  }
  if (crc != *extent.crc32) return crc_mismatch(source, description_.tensors[index], *extent.crc32, crc);
  return {};
}

// The payload, or the run of a view, as stored: uncompressed, checksum checked on request.
Result<ByteVector> Archive::read_stored(size_t index, Checksum checksum) const {
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  const ByteSource& source = source_of(index);
  if (!extent.deflated) {
    if (checksum == Checksum::kCheck) BALLAST_CHECK(check_stored_crc(index));
    return read_bytes(source, extent.offset, extent.length);
  }
  const uint64_t size = extent.view ? extent.view->run_size : tensor.byte_size;
  BALLAST_TRY(ByteVector member, make_bytes(source, extent.member_prefix + size + extent.member_suffix));
  BALLAST_CHECK(inflate(source, extent.offset, extent.length, member, /*whole=*/true));
  if (checksum == Checksum::kCheck && extent.crc32) {
    const uint32_t crc = crc32_of(member);
    if (crc != *extent.crc32) return crc_mismatch(source, tensor, *extent.crc32, crc);
  }
  member.resize(static_cast<size_t>(extent.member_prefix + size));
  member.erase(member.begin(), member.begin() + static_cast<ptrdiff_t>(extent.member_prefix));
  return member;
}

// Calls `take` with the stored payload, or the run of a view, in pieces of whole `unit`s. What stands around it in its
// member is only summed up, and the checksum is compared at the end.
Status Archive::inflate_member(size_t index, uint64_t unit, const TakePiece& take) const {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  const uint64_t size = extent.view ? extent.view->run_size : tensor.byte_size;
  Inflater stream(source_of(index), extent.offset, extent.length);
  BALLAST_TRY(ByteVector buffer, make_bytes(source_of(index), std::max(kPiece / unit, uint64_t{1}) * unit));
  uint32_t crc = 0;
  const auto pass = [&](uint64_t length, const TakePiece* taker) -> Status {
    for (uint64_t at = 0; at < length; at += buffer.size()) {
      const auto piece =
          MutableByteSpan(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), length - at)));
      BALLAST_CHECK(stream.read(piece));
      crc = crc32_of(piece, crc);
      if (taker != nullptr) BALLAST_CHECK((*taker)(at, piece));
    }
    return {};
  };
  BALLAST_CHECK(pass(extent.member_prefix, nullptr));
  BALLAST_CHECK(pass(size, &take));
  BALLAST_CHECK(pass(extent.member_suffix, nullptr));
  BALLAST_CHECK(stream.finish());
  if (!extent.crc32 || crc == *extent.crc32) return {};
  return crc_mismatch(source_of(index), tensor, *extent.crc32, crc);
}

Status Archive::stream_deflated(size_t index, ByteSink& sink) const {
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  if (extent.view && extent.view->run_size > kStreamMemory) {
    return make_error(ErrorCode::kUnsupported,
                      source_of(index).name() + ": tensor \"" + tensor.name + "\" is a part of " +
                          std::to_string(extent.view->run_size) +
                          " compressed bytes, which would have to be unpacked in memory; store the file uncompressed");
  }
  if (extent.fortran_order && !extent.view && tensor.byte_size > kStreamMemory) return stream_column_major(index, sink);
  if (extent.fortran_order || extent.view) {
    BALLAST_TRY(const Payload bytes, payload(index));
    return sink.write(bytes.bytes());
  }
  constexpr uint64_t kLargestElement = 16;
  return inflate_member(index, kLargestElement, [&](uint64_t, MutableByteSpan piece) {
    if (extent.big_endian) swap_byte_order(tensor.dtype, piece);
    return sink.write(piece);
  });
}

// Each time the member is unpacked, the elements of one part of the row-major result are picked out of it.
Status Archive::stream_column_major(size_t index, ByteSink& sink) const {
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  const uint64_t elements = *tensor.shape.element_count();
  const uint64_t unit = tensor.byte_size / elements;
  const uint64_t part_elements = std::max(kStreamMemory / unit, uint64_t{1});
  for (uint64_t first = 0; first < elements; first += part_elements) {
    BALLAST_TRY(ByteVector part, make_bytes(source_of(index), std::min(part_elements, elements - first) * unit));
    ColumnMajorWalk walk(tensor.shape);
    BALLAST_CHECK(inflate_member(index, unit, [&](uint64_t, MutableByteSpan piece) -> Status {
      if (extent.big_endian) swap_byte_order(tensor.dtype, piece);
      for (uint64_t at = 0; at < piece.size(); at += unit, walk.advance()) {
        const uint64_t place = walk.row_major() - first;  // wraps around for elements of earlier parts
        if (place >= part.size() / unit) continue;
        std::memcpy(part.data() + place * unit, piece.data() + at, static_cast<size_t>(unit));
      }
      return {};
    }));
    BALLAST_CHECK(sink.write(part));
  }
  return {};
}

// A view of a run that need not be unpacked is taken from the source itself: the run may be far longer than the tensor.
Result<ByteVector> Archive::read_strided(size_t index, Checksum checksum) const {
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  BALLAST_TRY(ByteVector out, make_bytes(source_of(index), tensor.byte_size));
  const auto gather = [&](ByteSpan run) {
    gather_strided(extent.view->sizes, extent.view->strides, extent.view->element_size, run, out);
  };
  if (extent.deflated) {
    BALLAST_TRY(const ByteVector run, read_stored(index, checksum));
    gather(run);
    return out;
  }
  if (checksum == Checksum::kCheck) BALLAST_CHECK(check_stored_crc(index));
  BALLAST_TRY(const BytesOrView run, BytesOrView::of(source_of(index), extent.offset, extent.length));
  gather(run.bytes());
  return out;
}

Result<Payload> Archive::payload(size_t index, Checksum checksum) const {
  const StoredExtent& extent = extents_[index];
  const TensorInfo& tensor = description_.tensors[index];
  if (extent.is_canonical()) {
    if (checksum == Checksum::kCheck) BALLAST_CHECK(check_stored_crc(index));
    return Payload::of(source_of(index), extent.offset, extent.length);
  }
  BALLAST_TRY(ByteVector bytes, extent.view ? read_strided(index, checksum) : read_stored(index, checksum));
  if (extent.big_endian) swap_byte_order(tensor.dtype, bytes);
  if (extent.view && extent.view->negate) flip_signs(tensor.dtype, SignsOf::kAll, bytes);
  if (extent.view && extent.view->conjugate) flip_signs(tensor.dtype, SignsOf::kImaginary, bytes);
  if (extent.fortran_order) {
    ByteVector ordered(bytes.size());
    fortran_to_row_major(tensor.shape, bytes, ordered);
    bytes = std::move(ordered);
  }
  return Payload(std::move(bytes));
}

Result<Payload> Archive::aligned_payload(size_t index, size_t alignment) const {
  BALLAST_TRY(Payload bytes, payload(index));
  const auto address = reinterpret_cast<uintptr_t>(bytes.bytes().data());
  if (address % alignment == 0) return bytes;
  return Payload(ByteVector(bytes.bytes().begin(), bytes.bytes().end()));
}

Status Archive::read_into(size_t index, MutableByteSpan out, Checksum checksum) const {
  const StoredExtent& extent = extents_[index];
  if (out.size() != description_.tensors[index].byte_size) {
    return make_error(ErrorCode::kInvalidArgument, "tensor \"" + description_.tensors[index].name + "\" has " +
                                                       std::to_string(description_.tensors[index].byte_size) +
                                                       " bytes, the buffer " + std::to_string(out.size()));
  }
  if (extent.is_canonical()) {
    if (checksum == Checksum::kCheck) BALLAST_CHECK(check_stored_crc(index));
    return read_plain(source_of(index), extent.offset, out);
  }
  BALLAST_TRY(const Payload bytes, payload(index, checksum));
  std::ranges::copy(bytes.bytes(), out.begin());
  return {};
}

Status Archive::read_range(size_t index, uint64_t offset, MutableByteSpan out) const {
  const StoredExtent& extent = extents_[index];
  if (!range_fits(offset, out.size(), description_.tensors[index].byte_size)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "tensor \"" + description_.tensors[index].name + "\" has no such range of bytes");
  }
  if (extent.is_canonical()) return read_plain(source_of(index), extent.offset + offset, out);
  BALLAST_TRY(const Payload bytes, payload(index));
  std::ranges::copy(bytes.bytes().subspan(static_cast<size_t>(offset), out.size()), out.begin());
  return {};
}

Status Archive::check_crc(size_t index) const {
  const StoredExtent& extent = extents_[index];
  if (!extent.crc32) return {};
  if (!extent.deflated) return check_stored_crc(index);
  return inflate_member(index, 1, [](uint64_t, MutableByteSpan) { return Status(); });
}

}  // namespace ballast
