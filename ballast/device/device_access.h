// The memory that a tensor lies in, for backends of devices: what they put behind DeviceMemory tells them its address.
#pragma once

#include "ballast/device/tensor.h"

namespace ballast {

struct DeviceAccess {
  // Of a tensor that is not empty, which begins where its memory does.
  static DeviceMemory& memory(const Tensor& tensor) { return *tensor.block_->memory; }
};

}  // namespace ballast
