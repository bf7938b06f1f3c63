#include "ballast/backends/opencl/launch.h"

#include "ballast/backends/opencl/device.h"
#include "ballast/backends/opencl/resident_params.h"
#include "ballast/device/device_access.h"

namespace ballast::opencl {

Buffer device_buffer(const DeviceMemory& memory) { return {static_cast<const OpenClMemory&>(memory).handle()}; }

Buffer device_buffer(const Tensor& tensor) {
  return tensor.empty() ? Buffer{} : device_buffer(DeviceAccess::memory(tensor));
}

Result<WeightSpan> weights(Context& context, const Param& param, const ops::RowRange& rows) {
  BALLAST_TRY(const Buffer buffer, ResidentParams::of(context, param.store()).stored(context, param));
  const uint64_t count = rows.count != 0 ? rows.count : param.rows() - rows.first;
  return WeightSpan{buffer, rows.first * param.row_bytes(), param.dtype(), count, param.row_bytes()};
}

Result<Buffer> weight_form(Context& context, const Param& param, const WeightForm& form) {
  return ResidentParams::of(context, param.store()).form(context, param, form);
}

Status launch_packed(Context& context, const Kernel& kernel, const Grid& grid, std::span<const Argument> arguments) {
  return queue_of(context).launch(kernel, grid, arguments);
}

}  // namespace ballast::opencl
