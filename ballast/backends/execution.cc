#include "ballast/backends/execution.h"

#include <fmt/format.h>

#include "ballast/device/host_values.h"

namespace ballast {

namespace {

Result<Tensor> copied_in(Workspace& workspace, ByteSpan bytes, size_t count, const Dims& dims, DType dtype) {
  if (dims.count() != count) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} values do not fill {}", count, dims.to_string()));
  }
  return workspace.from_bytes(bytes, dims, dtype);
}

}  // namespace

Result<std::shared_ptr<Execution>> Execution::open(std::string_view backend, unsigned threads) {
  BALLAST_TRY(const Backend* chosen, choose_backend(backend));
  return open(*chosen, threads);
}

Result<std::shared_ptr<Execution>> Execution::open(const Backend& backend, unsigned threads) {
  BALLAST_TRY(const std::shared_ptr<Device> device, backend.open_device());
  BALLAST_TRY(std::shared_ptr<Queue> queue, device->open_queue());
  return std::shared_ptr<Execution>(new Execution(backend, std::move(queue), threads));
}

Result<Tensor> Execution::from_host(std::span<const float> values, const Dims& dims) {
  return copied_in(workspace_, std::as_bytes(values), values.size(), dims, DType::kF32);
}

Result<Tensor> Execution::from_host(std::span<const uint32_t> ids, const Dims& dims) {
  return copied_in(workspace_, std::as_bytes(ids), ids.size(), dims, DType::kU32);
}

Result<std::vector<float>> Execution::to_host(const Tensor& tensor) { return floats_of(tensor); }

}  // namespace ballast
