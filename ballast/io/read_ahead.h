// Keeps the disk busy in front of readers: it works while they compute, on large requests and several at a time.
#pragma once

#include <cstdint>
#include <mutex>

#include "ballast/base/byte_source.h"

namespace ballast {

// One for each source, shared by all threads that read it. They say what they are about to read; it asks the operating
// system for that and, once a stretch of the file has been read without gaps, for what lies behind. What is asked for
// in vain is at most half of what was read.
//
// Measured against a pool of threads that read into buffers of their own: the same speed from the disk, and without
// the copy. A file that is already in memory costs a question per mebibyte.
class ReadAhead {
 public:
  // This much is asked for in advance: enough for a disk that answers many requests at once.
  static constexpr uint64_t kWindow = uint64_t{32} << 20;
  // Readers of long ranges announce themselves about this often.
  static constexpr uint64_t kStep = uint64_t{1} << 20;

  // `source` must outlive it.
  explicit ReadAhead(const ByteSource& source) : source_(source) {}

  // The bytes from `at` to `end` are read now, from front to back. Any number of threads.
  void reading(uint64_t at, uint64_t end);

 private:
  static constexpr uint64_t kGap = uint64_t{64} << 10;  // padding and headers between payloads

  const ByteSource& source_;
  std::mutex mutex_;
  uint64_t begin_ = 0;  // of the stretch that is read without gaps
  uint64_t asked_ = 0;  // its end, as far as it was asked for
};

}  // namespace ballast
