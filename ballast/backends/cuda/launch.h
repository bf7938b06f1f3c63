// What implementations of functionals need to compute on a GPU: addresses of tensors and parameters there, and
// launches. Everything is put into the context's queue and happens in its order; what goes wrong there is said by the
// queue's next finish(). A family of functionals is a file beside this one, with kernels in kernels/<module>.cu:
//
//   Result<Tensor> run_relu(Context& context, const ops::ReluArgs& args) {
//     BALLAST_TRY(const Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
//     BALLAST_CHECK(launch(context, Kernel::relu_f32, {.grid = {blocks_for(y.count(), 256)}, .block = {256}},
//                          device_address(args.x), device_address(y), y.count()));
//     return y;
//   }
//   void add_activation(Registry& registry) { add_functional<ops::ReluArgs, run_relu, supports_relu>(registry); }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "ballast/backends/cuda/kernel_names.h"
#include "ballast/backends/offload/fallback.h"
#include "ballast/ops/ops.h"

namespace ballast::cuda {

// An address in a GPU's memory. A kernel declares the pointer that it stands for.
enum class CudaPointer : uint64_t { kNull = 0 };
constexpr CudaPointer operator+(CudaPointer address, uint64_t bytes) {
  return CudaPointer{static_cast<uint64_t>(address) + bytes};
}

// ---------------------------------------------------------------- where things are
// Aligned to 256 bytes. The tensor must be of a CUDA device, as those are that a functional is given; kNull where it is
// empty.
CudaPointer device_address(const Tensor& tensor);
// Of a page of keys and values, for instance.
CudaPointer device_address(const DeviceMemory& memory);
inline CudaPointer device_address_or_null(const Tensor* tensor) {
  return tensor != nullptr ? device_address(*tensor) : CudaPointer::kNull;
}

// Bytes of a parameter on the device, as the file stores them: rows follow each other without gaps, blocks as in GGUF.
struct WeightSpan {
  CudaPointer address = CudaPointer::kNull;  // of the first row; that of the parameter is aligned to 256 bytes
  DType dtype = DType::kF32;
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
};
// All rows where `rows.count` is 0. The first use uploads the parameter, which then stays as long as its store; one
// that is trained is uploaded each time. kOutOfMemory says what does not fit.
Result<WeightSpan> weights(Context& context, const Param& param, const ops::RowRange& rows = {});
// kNull without a parameter.
Result<CudaPointer> weights_or_null(Context& context, const Param* param);

// Another form of a parameter (repacked, transposed), made on the device once and kept as long as its store. Stored
// bytes that nobody asked for but to make it go again. `name` tells forms of one parameter apart.
struct WeightForm {
  std::string_view name;
  uint64_t bytes = 0;
  // Launches what fills `out` from the stored bytes.
  std::function<Status(Context& context, const WeightSpan& stored, CudaPointer out)> make;
};
Result<CudaPointer> weight_form(Context& context, const Param& param, const WeightForm& form);

// A copy of some numbers on the device (ids, addresses of pages): a tensor of bytes that must live until the launch.
Result<Tensor> upload_bytes(Context& context, ByteSpan bytes);
template <typename T>
Result<Tensor> upload(Context& context, std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return upload_bytes(context, std::as_bytes(values));
}

// ---------------------------------------------------------------- launches
struct Extent {
  uint32_t x = 1, y = 1, z = 1;
};
struct Grid {
  Extent grid{};
  Extent block{};
  uint32_t shared_bytes = 0;  // dynamic; beyond 48 KiB is allowed up to Facts::shared_bytes
};
// 2^31 - 1 at most: kernels over more elements than that go on in steps of the grid.
constexpr uint32_t blocks_for(uint64_t count, uint64_t of_each) {
  const uint64_t blocks = (count + of_each - 1) / of_each;
  return static_cast<uint32_t>(blocks < 0x7FFFFFFF ? blocks : 0x7FFFFFFF);
}

// What a launch may depend on. Bits must not: they are the same for any count of multiprocessors.
struct Facts {
  int major = 0, minor = 0;  // compute capability: 9, 0
  uint32_t multiprocessors = 0;
  uint64_t shared_bytes = 0;  // that a block can have
  uint64_t cache_bytes = 0;   // second-level
};
const Facts& facts(const Context& context);

// With a grid of no blocks nothing happens. An error is that of the launch itself (a kernel that the image lacks for
// this GPU, arguments whose number or sizes are not the kernel's); errors while it runs come from the queue's finish().
Status launch_packed(Context& context, Kernel kernel, const Grid& grid, std::span<const void* const> arguments,
                     std::span<const size_t> sizes);
// Each argument is copied as it is: its type must have the size of the kernel's parameter. CudaPointer for pointers.
template <typename... Args>
Status launch(Context& context, Kernel kernel, const Grid& grid, const Args&... args) {
  static_assert((std::is_trivially_copyable_v<Args> && ...), "kernels are given plain values");
  static_assert((!std::is_pointer_v<Args> && ...), "addresses of the host mean nothing on a device");
  const std::array<const void*, sizeof...(Args)> arguments = {static_cast<const void*>(&args)...};
  constexpr std::array<size_t, sizeof...(Args)> kSizes = {sizeof(Args)...};
  return launch_packed(context, kernel, grid, arguments, kSizes);
}

// ---------------------------------------------------------------- registration
using offload::add_functional;
using offload::add_routine;

}  // namespace ballast::cuda
