// The kernels that are compiled into the library. A row names the file that has it, kernels/<module>.cu, and the
// `extern "C" __global__` function; the build fails where a row has no function or a function no row
// (scripts/pack_kernels).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// X(module, function)
#define BALLAST_CUDA_KERNELS(X) X(elementwise, fill_f32)

namespace ballast::cuda {

// Named as the functions are.
enum class Kernel : uint16_t {
#define BALLAST_CUDA_ENUMERATOR(module, function) function,
  BALLAST_CUDA_KERNELS(BALLAST_CUDA_ENUMERATOR)
#undef BALLAST_CUDA_ENUMERATOR
};

struct KernelRow {
  std::string_view module, function;
};
inline constexpr auto kKernelRows = std::to_array<KernelRow>({
#define BALLAST_CUDA_ROW(module, function) {#module, #function},
    BALLAST_CUDA_KERNELS(BALLAST_CUDA_ROW)
#undef BALLAST_CUDA_ROW
});

}  // namespace ballast::cuda
