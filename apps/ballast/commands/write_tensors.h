// Tensors that a model made, as a file.
#pragma once

#include <span>
#include <string>

#include "ballast/device/tensor.h"

namespace ballast::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

enum class Tensors : unsigned char { kOne, kSeveral };

// Whether write_tensors could write there; empty is yes. For telling it before the work is done.
Status check_destination(const std::string& path, bool overwrite, Tensors count = Tensors::kOne);

// The extension of `path` names the format: .gten, .npz, .safetensors, and for one tensor .npy. Whole or not at all; in
// the given order where the format keeps one.
Status write_tensors(const std::string& path, std::span<const NamedTensor> tensors, bool overwrite);

}  // namespace ballast::cli
