// Tensors that a model made, as a file of any format.
#pragma once

#include <span>
#include <string>

#include "ballast/device/tensor.h"

namespace ballast::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Whether write_tensors could write there; empty is yes. For telling it before the work is done.
Status check_destination(const std::string& path, bool overwrite);

// The extension of `path` names the format. Whole or not at all; in the given order where the format keeps one.
Status write_tensors(const std::string& path, std::span<const NamedTensor> tensors, bool overwrite);

}  // namespace ballast::cli
