// The header Range (RFC 9110, section 14): which part of a file a client wants.
#pragma once

#include <cstdint>
#include <string_view>

namespace ballast::cli {

struct ByteRange {
  enum class Kind : unsigned char {
    kWhole,    // nothing was asked for that means a part: send everything
    kPart,     // these bytes, at least one
    kRefused,  // no byte of the file, several parts, or nonsense: status 416
  };
  Kind kind = Kind::kWhole;
  uint64_t first = 0;
  uint64_t size = 0;
};

// `header` as it came, empty where there was none; `file_size` in bytes. Whoever asks for a part in a way that is not
// understood is refused: they would not know what to do with fifty gigabytes.
ByteRange read_byte_range(std::string_view header, uint64_t file_size);

}  // namespace ballast::cli
