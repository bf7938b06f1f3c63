// What a file is that no format of ours recognises: the usual suspects.
#pragma once

#include <optional>

#include "ballast/archive/doctor.h"
#include "ballast/base/byte_source.h"

namespace ballast {

// Looks at the first few kilobytes and, where they are all zero, at more.
Result<std::optional<ForeignContent>> find_foreign_content(const ByteSource& source);

}  // namespace ballast
