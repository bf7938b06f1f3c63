// Is this file what it says it is? All findings, with byte offsets, not only the first.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/open.h"
#include "ballast/base/progress.h"
#include "ballast/formats/findings.h"

namespace ballast {

enum class VerifyLevel : uint8_t {
  kStructure,  // headers, extents, checksums of the container
  kContent,    // also every value finite, digests against a manifest beside the file, payloads stored twice
};

struct VerifyOptions {
  VerifyLevel level = VerifyLevel::kStructure;
  unsigned threads = 0;
  Progress progress;
};

struct VerifyReport {
  std::string format;  // empty when the file could not even be parsed
  std::vector<Finding> findings;
  bool sound() const;  // no warning and no error
};

// Fails only when there is nothing to check: no such file, unknown format, I/O error. A damaged file is a report.
Result<VerifyReport> verify_archive(const std::string& path, const VerifyOptions& options = {});

}  // namespace ballast
