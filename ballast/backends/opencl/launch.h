// What implementations of functionals need to compute on an OpenCL device: buffers of tensors and parameters there, and
// launches. Everything is put into the context's queue and happens in its order; what goes wrong there is said by the
// queue's next finish(). A family of functionals is a file beside this one, with kernels in kernels/<program>.cl.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "ballast/backends/offload/fallback.h"
#include "ballast/backends/opencl/driver.h"
#include "ballast/ops/ops.h"

namespace ballast::opencl {

// A buffer as an argument: a kernel declares the __global pointer that it stands for. Null: absent.
struct Buffer {
  DriverMemory handle = nullptr;
};

// ---------------------------------------------------------------- where things are
// The tensor must be of an OpenCL device, as those are that a functional is given; it begins where its buffer does.
Buffer device_buffer(const Tensor& tensor);
Buffer device_buffer(const DeviceMemory& memory);
inline Buffer device_buffer_or_null(const Tensor* tensor) {
  return tensor != nullptr ? device_buffer(*tensor) : Buffer{};
}

// Bytes of a parameter on the device, as the file stores them: rows follow each other without gaps, blocks as in GGUF.
struct WeightSpan {
  Buffer buffer;
  uint64_t offset = 0;  // of the first row, in bytes
  DType dtype = DType::kF32;
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
};
// All rows where `rows.count` is 0. The first use uploads the parameter, which then stays as long as its store; one
// that is trained is uploaded each time. kOutOfMemory says what does not fit.
Result<WeightSpan> weights(Context& context, const Param& param, const ops::RowRange& rows = {});

// Another form of a parameter (transposed), made on the device once and kept as long as its store.
struct WeightForm {
  std::string_view name;
  uint64_t bytes = 0;
  // Launches what fills `out` from the stored bytes.
  std::function<Status(Context& context, const WeightSpan& stored, Buffer out)> make;
};
Result<Buffer> weight_form(Context& context, const Param& param, const WeightForm& form);

// ---------------------------------------------------------------- launches
// A function of kernels/<program>.cl, compiled for weights of one type where `variant` is not negative.
struct Kernel {
  std::string_view program, function;
  int variant = -1;
};

// Every group has this many work-items: sums depend on it.
inline constexpr uint64_t kGroupSize = 64;
// Groups in up to three dimensions.
struct Grid {
  uint64_t x = 1, y = 1, z = 1;
};
// A work-item for each element; kernels leave out those behind the last.
constexpr Grid grid_over(uint64_t count) { return {.x = (count + kGroupSize - 1) / kGroupSize}; }

struct Argument {
  size_t bytes = 0;
  const void* value = nullptr;
};

// With a grid of no groups nothing happens. An error is that of compiling the program, with the compiler's log, or of
// the launch itself.
Status launch_packed(Context& context, const Kernel& kernel, const Grid& grid, std::span<const Argument> arguments);
// Each argument is copied as it is: its type must have the size of the kernel's parameter. Buffer for pointers.
template <typename... Args>
Status launch(Context& context, const Kernel& kernel, const Grid& grid, const Args&... args) {
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernels are given plain values");
  static_assert((!std::is_pointer_v<Args> && ...), "addresses of the host mean nothing on a device");
  const std::array<Argument, sizeof...(Args)> arguments = {Argument{sizeof(Args), static_cast<const void*>(&args)}...};
  return launch_packed(context, kernel, grid, arguments);
}

using offload::add_functional;
using offload::add_routine;

}  // namespace ballast::opencl
