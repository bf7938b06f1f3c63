// What two archives say beside their tensors, compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"

namespace ballast {

struct MetadataChange {
  std::string key;
  std::optional<MetaValue> a;  // absent where only the other has the key
  std::optional<MetaValue> b;
};

struct MetadataReport {
  std::vector<MetadataChange> changes;  // by key
  bool config_differs = false;          // the model config, compared as text

  bool equal() const { return changes.empty() && !config_differs; }
};

// The order of keys does not count. A file that was converted counts as what it was converted from, as long as its
// `ballast.origin` is not stale; checking that reads all tensors. A text under `config_key` is the model config of a
// format that has no field for one.
Result<MetadataReport> diff_metadata(const Archive& a, const Archive& b, std::string_view config_key,
                                     unsigned threads = 0, const Progress& progress = {});

}  // namespace ballast
