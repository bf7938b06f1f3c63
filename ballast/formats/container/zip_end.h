// The records at the end of a zip file, which say where its directory is.
#pragma once

#include "ballast/base/byte_source.h"

namespace ballast {

struct ZipEnd {
  uint64_t count = 0;             // of members
  uint64_t directory_offset = 0;  // central directory
  uint64_t directory_size = 0;
  uint64_t records_offset = 0;  // where the end records begin: directly behind the directory
};

// Finds and checks the end records. A file in which two readers could find different ones is refused.
Result<ZipEnd> find_zip_end(const ByteSource& source);

}  // namespace ballast
