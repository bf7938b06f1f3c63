#include "ballast/formats/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

namespace ballast {

namespace {

constexpr size_t kWindow = 64 * 1024;
constexpr size_t kMaxZlibStep = std::numeric_limits<uInt>::max() / 2;

// Ends the zlib stream on every way out.
struct InflateStream {
  z_stream zlib{};
  bool ready = inflateInit2(&zlib, -MAX_WBITS) == Z_OK;
  ~InflateStream() {
    if (ready) inflateEnd(&zlib);
  }
};

Error broken_stream(const ByteSource& source, uint64_t offset, const std::string& what) {
  return make_error(ErrorCode::kCorrupt,
                    source.name() + ": the compressed stream at byte " + std::to_string(offset) + " " + what);
}

}  // namespace

uint32_t crc32_of(ByteSpan bytes, uint32_t crc) {
  if (bytes.empty()) return crc;  // zlib takes a null pointer for a request to start anew
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t crc32_of_zeros(uint64_t count, uint32_t crc) {
  const std::byte zero{0};
  uLong run = crc32_of({&zero, 1});  // of `length` zeros
  uLong result = crc;
  for (uint64_t length = 1; count >= length && length != 0; length *= 2) {
    if ((count & length) != 0) result = crc32_combine(result, run, static_cast<z_off_t>(length));
    run = crc32_combine(run, run, static_cast<z_off_t>(length));
  }
  return static_cast<uint32_t>(result);
}

Status inflate(const ByteSource& source, uint64_t offset, uint64_t length, MutableByteSpan out, bool whole) {
  InflateStream stream;
  if (!stream.ready) return make_error(ErrorCode::kOutOfMemory, "zlib could not start");
  std::array<std::byte, kWindow> window;
  std::byte overflow_probe;
  uint64_t consumed = 0;
  size_t produced = 0;
  for (;;) {
    if (stream.zlib.avail_in == 0 && consumed < length) {
      const size_t now = static_cast<size_t>(std::min<uint64_t>(length - consumed, window.size()));
      BALLAST_CHECK(source.read_at(offset + consumed, MutableByteSpan(window).first(now)));
      consumed += now;
      stream.zlib.next_in = reinterpret_cast<Bytef*>(window.data());
      stream.zlib.avail_in = static_cast<uInt>(now);
    }
    // Once `out` is full one more byte of room tells a stream that ends here from one that goes on.
    const bool probing = produced == out.size();
    if (probing && !whole) return {};
    const size_t room = probing ? 1 : std::min(out.size() - produced, kMaxZlibStep);
    stream.zlib.next_out = reinterpret_cast<Bytef*>(probing ? &overflow_probe : out.data() + produced);
    stream.zlib.avail_out = static_cast<uInt>(room);
    const int code = ::inflate(&stream.zlib, Z_NO_FLUSH);
    const size_t got = room - stream.zlib.avail_out;
    if (probing && got > 0) return broken_stream(source, offset, "holds more than it declares");
    produced += probing ? 0 : got;
    if (code == Z_STREAM_END) break;
    if (code != Z_OK && code != Z_BUF_ERROR) return broken_stream(source, offset, "is damaged");
    if (got == 0 && stream.zlib.avail_in == 0 && consumed == length) {
      return broken_stream(source, offset, "is cut short");
    }
  }
  if (produced < out.size()) return broken_stream(source, offset, "holds less than it declares");
  if (whole && (stream.zlib.avail_in != 0 || consumed != length)) {
    return broken_stream(source, offset, "ends before its declared length");
  }
  return {};
}

struct DeflateSink::State {
  explicit State(ByteSink& target) : sink(target) {}
  ByteSink& sink;
  z_stream zlib{};
  bool ready = false;
  uint64_t taken = 0;
  std::array<std::byte, kWindow> window;
};

DeflateSink::DeflateSink(ByteSink& sink) : state_(std::make_unique<State>(sink)) {
  constexpr int kMemoryLevel = 8;
  state_->ready = deflateInit2(&state_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, kMemoryLevel,
                               Z_DEFAULT_STRATEGY) == Z_OK;
}

DeflateSink::~DeflateSink() {
  if (state_->ready) deflateEnd(&state_->zlib);
}

Status DeflateSink::run(int flush) {
  State& s = *state_;
  if (!s.ready) return make_error(ErrorCode::kOutOfMemory, "zlib could not start");
  for (;;) {
    s.zlib.next_out = reinterpret_cast<Bytef*>(s.window.data());
    s.zlib.avail_out = static_cast<uInt>(s.window.size());
    const int code = deflate(&s.zlib, flush);
    const size_t got = s.window.size() - s.zlib.avail_out;
    if (got > 0) BALLAST_CHECK(s.sink.write(ByteSpan(s.window).first(got)));
    const bool done = flush == Z_FINISH ? code == Z_STREAM_END : s.zlib.avail_in == 0 && s.zlib.avail_out != 0;
    if (done) return {};
  }
}

Status DeflateSink::write(ByteSpan bytes) {
  state_->taken += bytes.size();
  while (!bytes.empty()) {
    const size_t now = std::min(bytes.size(), kMaxZlibStep);
    state_->zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    state_->zlib.avail_in = static_cast<uInt>(now);
    BALLAST_CHECK(run(Z_NO_FLUSH));
    bytes = bytes.subspan(now);
  }
  return {};
}

Status DeflateSink::patch(uint64_t, ByteSpan) {
  return make_error(ErrorCode::kInvalidArgument, "a compressed stream cannot be patched");
}

uint64_t DeflateSink::position() const { return state_->taken; }

Status DeflateSink::finish() { return run(Z_FINISH); }

}  // namespace ballast
