// The names that a pickle of PyTorch may mention, and nothing else. See docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ballast/base/dtype.h"
#include "ballast/formats/torch/pickle.h"

namespace ballast {

enum class TorchName : uint8_t {
  kStorageClass,
  kDType,
  kTensorClass,      // torch.Tensor, Parameter: as an argument only
  kQuantization,     // torch.per_tensor_affine, ...
  kTensor,           // (storage, offset, size, stride)
  kTensorV2,         // (..., requires_grad, hooks [, metadata])
  kTensorV3,         // (..., requires_grad, hooks, dtype [, metadata])
  kParameter,        // (tensor, requires_grad, hooks)
  kParameterState,   // (tensor, requires_grad, hooks, state)
  kFromType,         // (function, class, arguments, state)
  kQuantizedTensor,  // (storage, offset, size, stride, quantizer, requires_grad, hooks)
  kSparseTensor,
  kMetaTensor,
  kDict,
  kSet,
  kBytes,
  kByteArray,
  kEncode,  // bytes as protocol 2 writes them: (text, "latin1")
  kComplex,
  kSize,
  kDevice,
  kLayout,
  kNumpyScalar,
  kNumpyDType,
};

// One element of a storage or of a dtype.
struct TorchType {
  DType dtype = DType::kU8;
  uint8_t bytes = 1;
  uint8_t values = 1;            // two of four bits share a byte
  bool untyped = false;          // bytes whose type the tensor says
  std::string_view scheme = {};  // of what is only carried
};

struct TorchGlobal {
  std::string_view module;
  std::string_view name;
  TorchName what;
  PickleRole role = PickleRole::kName;
  bool takes_state = false;
  TorchType type = {};
};

const TorchGlobal& torch_global(uint16_t id);

// For PickleOptions::find_global. Names are compared byte for byte.
std::optional<PickleGlobal> find_torch_global(std::string_view module, std::string_view name);

}  // namespace ballast
