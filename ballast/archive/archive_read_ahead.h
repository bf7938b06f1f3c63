// Read-ahead for work that goes through the payloads of an archive.
#pragma once

#include <deque>

#include "ballast/formats/archive.h"
#include "ballast/io/read_ahead.h"

namespace ballast {

// Shared by all threads of the work.
class ArchiveReadAhead {
 public:
  // `archive` must outlive it.
  explicit ArchiveReadAhead(const Archive& archive) : archive_(archive) {
    for (const auto& source : archive.sources()) sources_.emplace_back(*source);
  }

  // The stored bytes of a tensor are read now, from `at` to their end.
  void reading(size_t index, uint64_t at) {
    const StoredExtent& extent = archive_.extent(index);
    sources_[extent.source].reading(extent.offset + at, extent.offset + extent.length);
  }

 private:
  const Archive& archive_;
  std::deque<ReadAhead> sources_;  // which cannot be moved
};

}  // namespace ballast
