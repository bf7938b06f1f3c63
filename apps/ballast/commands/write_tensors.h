// Tensors that a model made, as a file.
#pragma once

#include <span>
#include <string>

#include "apps/ballast/flags/model_flags.h"
#include "ballast/device/tensor.h"

namespace ballast::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

enum class Tensors : unsigned char { kOne, kSeveral };

// Whether write_tensors could write `out` (empty: nothing is written), and --profile its file beside it. For telling it
// before the work is done.
Status check_outputs(const std::string& out, const ModelFlags& flags, Tensors count = Tensors::kOne);

// The extension of `path` names the format: .gten, .npz, .safetensors, and for one tensor .npy. Whole or not at all; in
// the given order where the format keeps one.
Status write_tensors(const std::string& path, std::span<const NamedTensor> tensors, bool overwrite);

}  // namespace ballast::cli
