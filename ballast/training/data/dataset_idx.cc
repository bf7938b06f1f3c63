// IDX, the format of MNIST: 0 0 type rank, the dimensions and the elements, all big-endian.
#include <fmt/format.h>

#include "ballast/formats/container/gzip.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

constexpr uint64_t kMagic = 4;

Error broken(const std::string& path, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: IDX: {}", path, what));
}

std::optional<DType> idx_type(unsigned code) {
  switch (code) {
    case 0x08: return DType::kU8;
    case 0x09: return DType::kI8;
    case 0x0B: return DType::kI16;
    case 0x0C: return DType::kI32;
    case 0x0D: return DType::kF32;
    case 0x0E: return DType::kF64;
    default: return std::nullopt;
  }
}

struct IdxHeader {
  DType dtype = DType::kU8;
  Shape shape;
  uint64_t begin = 0;  // of the elements
  uint64_t size = 0;   // of the whole content
};

// Bytes of the content, wherever they come from.
using ReadFront = std::function<Status(MutableByteSpan out)>;

Result<IdxHeader> read_header(const std::string& path, const ReadFront& read_front) {
  std::byte magic[kMagic];
  BALLAST_CHECK(read_front(magic));
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    return make_error(ErrorCode::kUnknownFormat,
                      fmt::format("{}: no IDX file: it begins with {}, not with 0000", path, to_hex(magic)));
  }
  const auto dtype = idx_type(std::to_integer<unsigned>(magic[2]));
  if (!dtype) return broken(path, fmt::format("unknown element type 0x{:02x}", std::to_integer<unsigned>(magic[2])));
  const auto rank = std::to_integer<size_t>(magic[3]);
  if (rank == 0) return broken(path, "no dimensions");
  IdxHeader header;
  header.begin = kMagic + rank * sizeof(uint32_t);
  ByteVector front(header.begin);
  BALLAST_CHECK(read_front(front));
  std::vector<uint64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i)
    dims[i] = byte_swapped(load_le<uint32_t>(front.data() + kMagic + i * sizeof(uint32_t)));
  header.dtype = *dtype;
  header.shape = Shape(dims);
  const auto elements = packed_size(header.shape, header.dtype);
  if (!elements || *elements > UINT64_MAX - header.begin)
    return broken(path, fmt::format("the shape {} has more elements than there can be", header.shape.to_string()));
  header.size = header.begin + *elements;
  return header;
}

Error wrong_length(const std::string& path, const IdxHeader& header, uint64_t size) {
  return broken(path, fmt::format("{} {} needs {} bytes, the file has {}: it is {}", dtype_name(header.dtype),
                                  header.shape.to_string(), header.size, size,
                                  size < header.size ? "cut short" : "longer than it says"));
}

template <std::unsigned_integral Word>
void swap_words(MutableByteSpan bytes) {
  for (size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word))
    store_le(bytes.data() + i, byte_swapped(load_le<Word>(bytes.data() + i)));
}

void to_little_endian(DType dtype, MutableByteSpan bytes) {
  switch (dtype_info(dtype).bits) {
    case 16: return swap_words<uint16_t>(bytes);
    case 32: return swap_words<uint32_t>(bytes);
    case 64: return swap_words<uint64_t>(bytes);
    default: return;
  }
}

Result<ArrayColumn> read_plain(const std::string& path, const std::shared_ptr<const ByteSource>& source) {
  BALLAST_TRY(const IdxHeader header, read_header(path, [&](MutableByteSpan out) { return source->read_at(0, out); }));
  if (header.size != source->size()) return wrong_length(path, header, source->size());
  const uint64_t length = header.size - header.begin;
  ArrayColumn column{"elements", header.dtype, header.shape, BytesOrView(ByteSpan()), source};
  if (dtype_info(header.dtype).bits == 8) {
    BALLAST_TRY(column.bytes, BytesOrView::of(*source, header.begin, length));
    return column;
  }
  BALLAST_TRY(ByteVector bytes, read_bytes(*source, header.begin, length));
  to_little_endian(header.dtype, bytes);
  column.bytes = BytesOrView(std::move(bytes));
  return column;
}

Result<ArrayColumn> read_compressed(const std::string& path, const ByteSource& source) {
  BALLAST_TRY(const GzipStream stream, parse_gzip(source));
  BALLAST_TRY(const IdxHeader header,
              read_header(path, [&](MutableByteSpan out) { return inflate_gzip_prefix(source, stream, out); }));
  BALLAST_TRY(ByteVector bytes, inflate_gzip(source, stream, header.size));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header.begin));
  to_little_endian(header.dtype, bytes);
  return ArrayColumn{"elements", header.dtype, header.shape, BytesOrView(std::move(bytes)), nullptr};
}

Result<ArrayColumn> read_idx(const std::string& path, std::string_view role) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kMapped));
  auto column = is_gzip(*source) ? read_compressed(path, *source) : read_plain(path, source);
  if (column) column->name = role;
  return column;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_idx_dataset(const std::string& images, const std::string& labels,
                                                        const ArrayOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<const Dataset>> {
    BALLAST_TRY(ArrayColumn features, read_idx(images, "images"));
    std::optional<ArrayColumn> targets;
    if (!labels.empty()) {
      BALLAST_TRY(targets, read_idx(labels, "labels"));
    }
    return make_array_dataset(images, std::move(features), std::move(targets), options);
  });
}

}  // namespace ballast
