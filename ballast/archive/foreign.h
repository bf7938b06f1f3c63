// What a file is that no format of ours recognises: the usual suspects.
#pragma once

#include <optional>
#include <string>

#include "ballast/base/byte_source.h"

namespace ballast {

struct ForeignContent {
  std::string kind;    // stable word: "html", "git_lfs_pointer", "gzip", ...
  std::string what;    // "a web page"
  std::string cause;   // why such a file stands where weights should
  std::string advice;  // what to do
};

// Looks at the first few kilobytes and, where they are all zero, at more.
Result<std::optional<ForeignContent>> find_foreign_content(const ByteSource& source);

}  // namespace ballast
