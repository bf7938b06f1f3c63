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
  std::string format;             // as its content was recognised, even where it could not be parsed further
  std::vector<Finding> findings;  // by offset
  bool sound() const;             // no warning and no error
};

// The findings in the order of their offsets, and how many were left out.
VerifyReport make_verify_report(std::string_view format, const Findings& findings);

// Fails only when there is nothing to check: no such file, unknown format, a kind this build does not handle, I/O
// error. A damaged file is a report. Payloads are read only where the structure is sound; positional reads, so that a
// file that changes meanwhile is an error and not a crash.
//
// Finding codes besides those of the formats: "unreadable" (nothing beyond this point could be interpreted), "checksum"
// and, for the content, "non_finite" (warning), "manifest" (error), "no_manifest", "duplicate_payload" (notes);
// "more_findings" when there were too many to keep.
Result<VerifyReport> verify_archive(const std::string& path, const VerifyOptions& options = {});
// The same for something that has no place of its own and so no manifest beside it: a pipe, memory.
Result<VerifyReport> verify_archive(const OpenRequest& request, const VerifyOptions& options = {});

}  // namespace ballast
