// What `verify` checks of payloads, a tensor at a time: whoever calls decides in which order, and on which threads.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/archive/digest.h"
#include "ballast/archive/write.h"
#include "ballast/formats/archive.h"
#include "ballast/formats/findings.h"
#include "ballast/tensor/elements.h"

namespace ballast {

// First every tensor, then one report. Tensors may be checked on several threads at once; the rest is for one.
class ArchiveCheck {
 public:
  // Both must outlive it.
  ArchiveCheck(const Archive& archive, Findings& findings);

  // The container's own checksum. Damage waits for the report; any other error is returned.
  Status check_crc(size_t index);
  // A plan whose providers, when drawn, check their tensor. Refers to this object.
  WritePlan scanning_plan();

  Status report_damage();
  // After scanning_plan() was drawn, with the digests of what it gave.
  Status report_content(const std::vector<TensorDigest>& digests);

  bool is_damaged(size_t index) const { return checks_[index].damage.has_value(); }

  // What reading a payload told about it.
  struct Payload {
    std::optional<Error> damage;
    NonFinite non_finite;
  };

 private:
  const TensorInfo& tensor(size_t index) const { return archive_.tensors()[index]; }
  const std::string& source_name(size_t index) const {
    return archive_.sources()[archive_.extent(index).source]->name();
  }
  void report_non_finite(size_t index);
  void report_duplicates(const std::vector<TensorDigest>& digests);
  void report_equal_tensors(std::span<const size_t> group);

  const Archive& archive_;
  Findings& findings_;
  std::vector<Payload> checks_;
};

}  // namespace ballast
