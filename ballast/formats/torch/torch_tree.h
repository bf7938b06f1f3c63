// The object in a file of PyTorch, taken apart: tensors by dotted names, everything else as metadata.
#pragma once

#include <string>
#include <vector>

#include "ballast/formats/archive.h"
#include "ballast/formats/findings.h"
#include "ballast/formats/torch/torch_storage.h"

namespace ballast {

// Of a file of this many bytes: how much is read of its pickle, and how much may come out of it.
struct TorchLimits {
  explicit TorchLimits(uint64_t file_size);

  uint64_t pickle_values;
  uint64_t inflated_pickle;  // bytes
  uint64_t description;      // bytes that names, tensors and metadata take in memory
  uint64_t payloads;         // bytes of all tensors together: views repeat what is stored once
};
inline constexpr uint64_t kMaxTorchPickle = uint64_t{64} << 20;

PickleOptions torch_pickle_options(const TorchLimits& limits, std::string where);

struct TorchObject {
  std::vector<TensorInfo> tensors;
  std::vector<StoredExtent> extents;  // of source 0
  std::vector<MetaEntry> metadata;
};

struct TorchTreeRequest {
  const PickleTree& tree;
  const TorchStorages& storages;
  TorchLimits limits;
  bool big_endian = false;
  uint64_t pickle_offset = 0;  // in the file, for findings
  std::string where;           // begins error texts: the file
};

// {"model": {"w": tensor}} gives the tensor "model.w", lists are numbered, a tensor on its own is called "tensor". What
// is no tensor becomes metadata under the same kind of name; a long list of numbers or texts is one text.
Result<TorchObject> read_torch_object(const TorchTreeRequest& request, Findings& findings);

}  // namespace ballast
