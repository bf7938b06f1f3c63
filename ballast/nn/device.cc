#include "ballast/nn/device.h"

#include <fmt/format.h>

#include <cstring>

namespace ballast::nn {

namespace {

Result<Tensor> copy_in(Workspace& workspace, ByteSpan bytes, size_t count, const Dims& dims, DType dtype) {
  if (dims.count() != count) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} values do not fill {}", count, dims.to_string()));
  }
  BALLAST_TRY(Tensor tensor, workspace.make(dims, dtype));
  if (!bytes.empty()) std::memcpy(tensor.writable<std::byte>(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(std::string_view backend, unsigned threads) {
  BALLAST_TRY(const Backend* chosen, choose_backend(backend));
  return std::shared_ptr<Device>(new Device(*chosen, threads));
}

Result<Tensor> Device::from_host(std::span<const float> values, const Dims& dims) {
  return copy_in(workspace_, std::as_bytes(values), values.size(), dims, DType::kF32);
}

Result<Tensor> Device::from_host(std::span<const uint32_t> ids, const Dims& dims) {
  return copy_in(workspace_, std::as_bytes(ids), ids.size(), dims, DType::kU32);
}

std::vector<float> Device::to_host(const Tensor& tensor) {
  const auto copy = [&](const auto* values) { return std::vector<float>(values, values + tensor.count()); };
  if (tensor.empty()) return {};
  return tensor.dtype() == DType::kF64 ? copy(tensor.data<double>()) : copy(tensor.f32());
}

}  // namespace ballast::nn
