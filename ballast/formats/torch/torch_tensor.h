// Tensors of a pickle of PyTorch: storage, offset, sizes and strides become a payload with a place in the file.
#pragma once

#include <optional>

#include "ballast/formats/archive.h"
#include "ballast/formats/torch/torch_storage.h"

namespace ballast {

struct TorchTensor {
  TensorInfo info;  // without a name
  StoredExtent extent;
  uint32_t storage = 0;                     // which of the storages
  std::optional<PickleValue> attributes;    // a dict of what Python code attached to it
  std::optional<PickleValue> quantization;  // a tuple: scheme and numbers
};

// True for calls that make a tensor, readable or not, and for storages.
bool is_torch_tensor(const PickleTree& tree, PickleValue value);

// Checks everything: arguments by type, geometry against the storage. An error says what is wrong, without file and
// name.
Result<TorchTensor> read_torch_tensor(const PickleTree& tree, const TorchStorages& storages, bool big_endian,
                                      PickleValue value);

}  // namespace ballast
