// The memory that a tensor lies in, for backends of devices: what they put behind DeviceMemory tells them its address.
#pragma once

#include <memory>

#include "ballast/device/tensor.h"

namespace ballast {

struct DeviceAccess {
  // Of a tensor that is not empty, which begins where its memory does.
  static DeviceMemory& memory(const Tensor& tensor) { return *tensor.block_->memory; }
  // A tensor of memory that no workspace recycles: it goes with the last tensor that shares it. The memory has room for
  // the elements, and is of the queue's device.
  static Tensor adopt(std::shared_ptr<Queue> queue, std::unique_ptr<DeviceMemory> memory, const Dims& dims,
                      DType dtype);
};

}  // namespace ballast
