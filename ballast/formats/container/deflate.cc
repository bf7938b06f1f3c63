#include "ballast/formats/container/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace ballast {

namespace {

constexpr size_t kWindow = 16 * 1024;  // beside the 42 KiB that zlib itself takes to unpack
constexpr size_t kMaxZlibStep = std::numeric_limits<uInt>::max() / 2;

// zlib's memory is that of everything else, also in programs that replace operator new (bindings/core).
void* take_memory(void*, uInt count, uInt size) { return ::operator new (size_t{count} * size, std::nothrow); }
void give_memory_back(void*, void* memory) { ::operator delete(memory); }

z_stream fresh_stream() {
  z_stream stream{};
  stream.zalloc = take_memory;
  stream.zfree = give_memory_back;
  return stream;
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

struct Inflater::State {
  State(const ByteSource& from, uint64_t begin, uint64_t size) : source(from), offset(begin), length(size) {}

  const ByteSource& source;
  uint64_t offset;
  uint64_t length;
  z_stream zlib = fresh_stream();
  bool ready = false;
  bool ended = false;
  uint64_t consumed = 0;
  std::array<std::byte, kWindow> window;

  Error broken(std::string_view what) const {
    return make_error(ErrorCode::kCorrupt, source.name() + ": the compressed stream at byte " + std::to_string(offset) +
                                               " " + std::string(what));
  }

  // One call of zlib. Gives how many bytes of `out` it filled; 0 only where the stream ended or more input is needed.
  Result<size_t> step(MutableByteSpan out) {
    if (!ready) return make_error(ErrorCode::kOutOfMemory, "zlib could not start");
    if (zlib.avail_in == 0 && consumed < length) {
      const size_t now = static_cast<size_t>(std::min<uint64_t>(length - consumed, window.size()));
      BALLAST_CHECK(source.read_at(offset + consumed, MutableByteSpan(window).first(now)));
      consumed += now;
      zlib.next_in = reinterpret_cast<Bytef*>(window.data());
      zlib.avail_in = static_cast<uInt>(now);
    }
    const size_t room = std::min(out.size(), kMaxZlibStep);
    zlib.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib.avail_out = static_cast<uInt>(room);
    const int code = ::inflate(&zlib, Z_NO_FLUSH);
    const size_t got = room - zlib.avail_out;
    ended = code == Z_STREAM_END;
    if (ended) return got;
    // zlib takes its own window from memory when the first bytes come: nothing is wrong with the stream then.
    if (code == Z_MEM_ERROR) {
      return make_error(ErrorCode::kOutOfMemory, source.name() + ": not enough memory to unpack a compressed stream");
    }
    if (code != Z_OK && code != Z_BUF_ERROR) return broken("is damaged");
    if (got == 0 && zlib.avail_in == 0 && consumed == length) return broken("is cut short");
    return got;
  }
};

Inflater::Inflater(const ByteSource& source, uint64_t offset, uint64_t length)
    : state_(std::make_unique<State>(source, offset, length)) {
  state_->ready = inflateInit2(&state_->zlib, -MAX_WBITS) == Z_OK;
}

Inflater::~Inflater() {
  if (state_->ready) inflateEnd(&state_->zlib);
}

Status Inflater::read(MutableByteSpan out) {
  while (!out.empty()) {
    if (state_->ended) return state_->broken("holds less than it declares");
    BALLAST_TRY(const size_t got, state_->step(out));
    out = out.subspan(got);
  }
  return {};
}

// One more byte of room tells a stream that ends here from one that goes on.
Status Inflater::finish() {
  std::byte probe;
  while (!state_->ended) {
    BALLAST_TRY(const size_t got, state_->step({&probe, 1}));
    if (got > 0) return state_->broken("holds more than it declares");
  }
  if (state_->zlib.avail_in == 0 && state_->consumed == state_->length) return {};
  return state_->broken("ends before its declared length");
}

Status inflate(const ByteSource& source, uint64_t offset, uint64_t length, MutableByteSpan out, bool whole) {
  Inflater stream(source, offset, length);
  BALLAST_CHECK(stream.read(out));
  return whole ? stream.finish() : Status();
}

struct DeflateSink::State {
  explicit State(ByteSink& target) : sink(target) {}
  ByteSink& sink;
  z_stream zlib = fresh_stream();
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
