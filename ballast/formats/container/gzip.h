// gzip: one deflate stream with a checksum and a length behind it.
#pragma once

#include <cstdint>
#include <memory>

#include "ballast/base/byte_source.h"

namespace ballast {

// True when the source begins as gzip files do.
bool is_gzip(const ByteSource& source);

// Where the stream of a gzip file lies and what its trailer says.
struct GzipStream {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t crc32 = 0;
  uint32_t size_mod_4g = 0;  // all that the format tells of the inflated size
};

// The header and trailer, checked against the length of the source. Files of several members are found out by
// inflate_gzip, whose stream then ends early.
Result<GzipStream> parse_gzip(const ByteSource& source);

// The first bytes of what is inside, as many as `out` holds.
Status inflate_gzip_prefix(const ByteSource& source, const GzipStream& stream, MutableByteSpan out);

// Everything inside, which must be `size` bytes: the caller knows from the content what there has to be. Checked before
// memory is taken: deflate cannot make more than 1,032 bytes of one.
Result<ByteVector> inflate_gzip(const ByteSource& source, const GzipStream& stream, uint64_t size);

}  // namespace ballast
