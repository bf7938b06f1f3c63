// Which files a write makes, and which it makes superfluous: that depends on what is at the destination already.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ballast/formats/format.h"
#include "ballast/io/file.h"

namespace ballast {

struct PlannedSet {
  std::unique_ptr<PlannedWrite> write;
  std::vector<std::string> superseded;  // paths, to be removed once the set is there

  // The path of one of its files where `destination` is what the user named.
  std::string path_of(const std::string& destination, size_t file) const;
};

// Chooses WriteRequest::generation, so that a set that replaces another is the old one, the new one, or found to be
// neither, whenever the writer is killed.
Result<PlannedSet> plan_set(const std::string& destination, const FormatDriver& format, WriteRequest request,
                            const CommitOptions& commit);

}  // namespace ballast
