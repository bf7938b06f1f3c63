// The elements of tensors that lie in the host's memory, as plain pointers: for backends that compute there, and for
// their tests and measurements. Everyone else reads through HostValues and writes through the workspace;
// scripts/check_layers sees to that.
#pragma once

#include <type_traits>

#include "ballast/device/tensor.h"

namespace ballast {

struct HostAccess {
  static std::byte* address(const Tensor& tensor) { return tensor.block_->memory->host_address(); }
};

// host_data<const float>(x): elements that are read.
template <typename T>
requires std::is_const_v<T> T* host_data(const Tensor& tensor) {
  return reinterpret_cast<T*>(HostAccess::address(tensor));
}
// host_data<float>(y): elements that are written. Only for the operation that made the tensor, before anyone else has
// it, and for routines that are given it to write to.
template <typename T>
requires(!std::is_const_v<T>) T* host_data(Tensor& tensor) { return reinterpret_cast<T*>(HostAccess::address(tensor)); }
inline ByteSpan host_bytes(const Tensor& tensor) {
  if (tensor.empty()) return {};
  return {HostAccess::address(tensor), static_cast<size_t>(tensor.byte_size())};
}

}  // namespace ballast
