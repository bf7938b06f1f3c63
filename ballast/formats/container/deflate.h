// Deflate streams and CRC-32, as zip containers use them.
#pragma once

#include <cstdint>
#include <memory>

#include "ballast/base/byte_source.h"

namespace ballast {

// CRC-32 (zip, gzip) of `bytes`, continuing from `crc` (0 to begin).
uint32_t crc32_of(ByteSpan bytes, uint32_t crc = 0);
// The same of `count` zero bytes, without going through them.
uint32_t crc32_of_zeros(uint64_t count, uint32_t crc);

// Inflates the raw deflate stream at [offset, offset + length) of `source`. `out` is filled completely from the start
// of the inflated data. With `whole`, the stream must end exactly where `out` does; without it, a prefix is enough.
// Memory: one fixed window, whatever the stream claims.
Status inflate(const ByteSource& source, uint64_t offset, uint64_t length, MutableByteSpan out, bool whole);

// The same, piece by piece.
class Inflater {
 public:
  // `source` must outlive it.
  Inflater(const ByteSource& source, uint64_t offset, uint64_t length);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Status read(MutableByteSpan out);  // the next bytes, all of them
  Status finish();                   // fails unless the stream ends here

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Deflates what is written to it into `sink`, at zlib's default level (as numpy.savez_compressed does).
class DeflateSink final : public ByteSink {
 public:
  explicit DeflateSink(ByteSink& sink);
  ~DeflateSink() override;

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t offset, ByteSpan bytes) override;  // always an error: the stream has left
  uint64_t position() const override;                      // bytes taken in
  Status finish();                                         // must be called once, after the last write

 private:
  struct State;
  Status run(int flush);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
