#include "ballast/backends/cuda/launch.h"

#include "ballast/backends/cuda/device.h"
#include "ballast/backends/cuda/resident_params.h"
#include "ballast/device/device_access.h"

namespace ballast::cuda {

CudaPointer device_address(const DeviceMemory& memory) {
  return CudaPointer{static_cast<const CudaMemory&>(memory).address()};
}

CudaPointer device_address(const Tensor& tensor) {
  return tensor.empty() ? CudaPointer::kNull : device_address(DeviceAccess::memory(tensor));
}

Result<WeightSpan> weights(Context& context, const Param& param, const ops::RowRange& rows) {
  BALLAST_TRY(const CudaPointer address, ResidentParams::of(context, param.store()).stored(context, param));
  const uint64_t count = rows.count != 0 ? rows.count : param.rows() - rows.first;
  return WeightSpan{address + rows.first * param.row_bytes(), param.dtype(), count, param.row_bytes()};
}

Result<CudaPointer> weights_or_null(Context& context, const Param* param) {
  if (param == nullptr) return CudaPointer::kNull;
  BALLAST_TRY(const WeightSpan span, weights(context, *param));
  return span.address;
}

Result<CudaPointer> weight_form(Context& context, const Param& param, const WeightForm& form) {
  return ResidentParams::of(context, param.store()).form(context, param, form);
}

Result<Tensor> upload_bytes(Context& context, ByteSpan bytes) {
  return context.workspace().from_bytes(bytes, {bytes.size()}, DType::kU8);
}

const Facts& facts(const Context& context) { return queue_of(context).cuda_device().info().facts; }

Status launch_packed(Context& context, Kernel kernel, const Grid& grid, std::span<const void* const> arguments,
                     std::span<const size_t> sizes) {
  return queue_of(context).launch(kernel, grid, arguments, sizes);
}

}  // namespace ballast::cuda
