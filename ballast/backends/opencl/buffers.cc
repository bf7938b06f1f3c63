// Buffers that programs bring, and those that they ask for.
#include <fmt/format.h>

#include "ballast/backends/opencl.h"
#include "ballast/backends/opencl/device.h"
#include "ballast/base/checked.h"
#include "ballast/device/device_access.h"

namespace ballast {

namespace {

using opencl::Driver;
using opencl::OpenClDevice;
using opencl::OpenClMemory;

constexpr uint32_t kBufferSize = 0x1102, kBufferContext = 0x1106;  // cl_mem_info

Result<uint64_t> bytes_of_elements(const Dims& dims, DType dtype) {
  std::optional<uint64_t> bytes = dtype_info(dtype).bits / 8;
  for (const uint64_t dim : dims.span()) {
    if (bytes) bytes = checked_mul(*bytes, dim);
  }
  if (bytes) return *bytes;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("OpenCL: no buffer can have {}", dims.to_string()));
}

Status check_buffer(const OpenClDevice& device, _cl_mem* buffer, uint64_t bytes) {
  size_t size = 0;
  opencl::DriverContext context = nullptr;
  const Driver& driver = device.driver();
  BALLAST_CHECK(Driver::check(driver.memory_info(buffer, kBufferSize, sizeof(size), &size, nullptr),
                              "asking how large the caller's buffer is"));
  BALLAST_CHECK(
      Driver::check(driver.memory_info(buffer, kBufferContext, sizeof(context), static_cast<void*>(&context), nullptr),
                    "asking whose the caller's buffer is"));
  if (context != device.context()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("OpenCL: the caller's buffer is of another context than {}", device.name()));
  }
  if (size >= bytes) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("OpenCL: the caller's buffer has {} bytes, and the tensor {}", size, bytes));
}

}  // namespace

Result<Tensor> tensor_on_buffer(Workspace& workspace, _cl_mem* buffer, const Dims& dims, DType dtype) {
  OpenClDevice* const device = opencl::as_opencl(&workspace.queue().device());
  if (device == nullptr || buffer == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "OpenCL: a tensor on a buffer takes a buffer and an OpenCL device");
  }
  BALLAST_TRY(const uint64_t bytes, bytes_of_elements(dims, dtype));
  BALLAST_CHECK(check_buffer(*device, buffer, bytes));
  BALLAST_CHECK(Driver::check(device->driver().memory_retain(buffer), "keeping the caller's buffer"));
  auto memory = std::make_unique<OpenClMemory>(*device, buffer, bytes, 0);
  return DeviceAccess::adopt(workspace.shared_queue(), std::move(memory), dims, dtype);
}

_cl_mem* buffer_of(const Tensor& tensor) {
  if (tensor.empty() || opencl::as_opencl(tensor.device()) == nullptr) return nullptr;
  return opencl::device_buffer(tensor).handle;
}

}  // namespace ballast
