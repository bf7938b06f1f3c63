#include "ballast/formats/container/gzip.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/formats/container/deflate.h"

namespace ballast {

namespace {

constexpr uint64_t kHeader = 10;
constexpr uint64_t kTrailer = 8;
constexpr uint64_t kMostHeader = uint64_t{1} << 17;  // names and comments longer than that are nobody's
constexpr uint64_t kMostPerByte = 1032;

enum : unsigned { kHasCrc = 2, kHasExtra = 4, kHasName = 8, kHasComment = 16, kReserved = 0xE0 };

Error broken(const ByteSource& source, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: gzip: {}", source.name(), what));
}

bool skip_text(ByteCursor& cursor) {
  while (const auto byte = cursor.take_le<uint8_t>()) {
    if (*byte == 0) return true;
  }
  return false;
}

// Moves behind the fields that the flags announce; false where the file ends before them.
bool skip_fields(ByteCursor& cursor, unsigned flags) {
  if ((flags & kHasExtra) != 0) {
    const auto length = cursor.take_le<uint16_t>();
    if (!length || !cursor.take_bytes(*length)) return false;
  }
  if ((flags & kHasName) != 0 && !skip_text(cursor)) return false;
  if ((flags & kHasComment) != 0 && !skip_text(cursor)) return false;
  return (flags & kHasCrc) == 0 || cursor.take_bytes(2).has_value();
}

}  // namespace

bool is_gzip(const ByteSource& source) {
  std::byte magic[2];
  if (source.size() < sizeof(magic) || !source.read_at(0, magic)) return false;
  return magic[0] == std::byte{0x1F} && magic[1] == std::byte{0x8B};
}

Result<GzipStream> parse_gzip(const ByteSource& source) {
  if (source.size() < kHeader + kTrailer) {
    return broken(source, fmt::format("{} bytes are too few for a header and a trailer", source.size()));
  }
  const uint64_t front = std::min(source.size() - kTrailer, kMostHeader);
  BALLAST_TRY(const ByteVector head, read_bytes(source, 0, front));
  if (head[0] != std::byte{0x1F} || head[1] != std::byte{0x8B}) return broken(source, "does not begin with 1f 8b");
  if (head[2] != std::byte{8}) {
    return broken(source, fmt::format("compression method {}, of which only 8 exists", std::to_integer<int>(head[2])));
  }
  const auto flags = std::to_integer<unsigned>(head[3]);
  if ((flags & kReserved) != 0) return broken(source, fmt::format("reserved flags are set (0x{:02x})", flags));
  ByteCursor cursor(head);
  cursor.take_bytes(kHeader);
  if (!skip_fields(cursor, flags)) return broken(source, "the header does not end within the file");
  BALLAST_TRY(const ByteVector tail, read_bytes(source, source.size() - kTrailer, kTrailer));
  GzipStream stream;
  stream.offset = cursor.position();
  stream.length = source.size() - kTrailer - stream.offset;
  stream.crc32 = load_le<uint32_t>(tail.data());
  stream.size_mod_4g = load_le<uint32_t>(tail.data() + 4);
  return stream;
}

Status inflate_gzip_prefix(const ByteSource& source, const GzipStream& stream, MutableByteSpan out) {
  return inflate(source, stream.offset, stream.length, out, /*whole=*/false);
}

Result<ByteVector> inflate_gzip(const ByteSource& source, const GzipStream& stream, uint64_t size) {
  const auto most = checked_mul(stream.length, kMostPerByte);
  if (most && size > *most) {
    return broken(source, fmt::format("{} compressed bytes cannot hold {} bytes", stream.length, size));
  }
  if (static_cast<uint32_t>(size) != stream.size_mod_4g) {
    return broken(source, fmt::format("its content must be {} bytes, but the trailer speaks of {} (the file is cut, or "
                                      "several were joined)",
                                      size, stream.size_mod_4g));
  }
  BALLAST_TRY(ByteVector bytes, make_bytes(source, size));
  BALLAST_CHECK(inflate(source, stream.offset, stream.length, bytes, /*whole=*/true));
  if (crc32_of(bytes) != stream.crc32) return broken(source, "the checksum does not match: the file is damaged");
  return bytes;
}

}  // namespace ballast
