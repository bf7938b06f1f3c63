// What `ballast inspect` found out about a file, and its two ways of saying it.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/model_summary.h"
#include "ballast/archive/tied.h"
#include "ballast/formats/archive.h"

namespace ballast::cli {

enum class InspectSort : unsigned char { kStored, kName, kSize, kOffset };

struct Inspection {
  const std::string& path;
  const Archive& archive;
  std::vector<size_t> shown;          // positions of the tensors to show, in the order to show them
  std::vector<TensorDigest> digests;  // one per tensor of the archive, when `hashed`
  bool hashed = false;
  std::vector<TiedGroup> tied;  // by content when `hashed`, otherwise those that share their bytes
  InspectSort sort = InspectSort::kStored;
  bool flat = false;
  bool all = false;      // layers that are built alike have their own lines
  bool full = false;     // long metadata stands there whole
  uint64_t context = 0;  // tokens to tell the memory for; 0: as many as the model takes
};

// With what stands beside the weights; nullopt where the file is no language model.
std::optional<ModelSummary> model_of(const Inspection& inspection);

std::string inspection_json(const Inspection& inspection);
void print_inspection(const Inspection& inspection, Console& console);

}  // namespace ballast::cli
