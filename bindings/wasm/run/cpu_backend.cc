// The backend of this module: the kernels of `cpu` that models run with. Nothing trains here, so there are no
// gradients.
#include <array>

#include "ballast/backends/backends.h"
#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/backends/cpu/cpu.h"
#include "ballast/backends/cpu/kernels.h"

namespace ballast {

namespace {

std::string_view level() { return "wasm"; }

std::string_view block_arithmetic(DType dtype, Numerics numerics) {
  return numerics == Numerics::kExact || dtype == DType::kBF16 ? "f32" : cpu::block_instructions(dtype);
}

}  // namespace

const HostBackend kCpuBackend = {
    {
        .name = "cpu",
        .summary = "vectorised for WebAssembly",
        .open_device = open_host_device,
        .level = level,
        .block_arithmetic = block_arithmetic,
        .add_implementations = add_host_implementations,
    },
    {
        .gemm = cpu::gemm,
        .gemm_scratch = cpu::gemm_scratch,
        .gemm_packed_bytes = cpu::gemm_packed_bytes,
        .gemm_pack = cpu::gemm_pack,
        .batched_matmul = cpu::batched_matmul,
        .attention = cpu::attention,
        .conv2d = cpu::conv2d,
        .conv2d_scratch = cpu::conv2d_scratch,
        .conv2d_packed_bytes = cpu::conv2d_packed_bytes,
        .conv2d_pack = cpu::conv2d_pack,
        .max_pool2d = cpu::max_pool2d,
        .avg_pool2d = cpu::avg_pool2d,
        .mean_over_positions = cpu::mean_over_positions,
        .layer_norm = cpu::layer_norm,
        .rms_norm = cpu::rms_norm,
        .softmax = cpu::softmax,
        .rope = cpu::rope,
        .unary = cpu::unary,
        .binary = cpu::binary,
        .add_bias = cpu::add_bias,
        .swiglu = cpu::swiglu,
        .widen = cpu::widen,
    },
    {},
};

namespace {
constexpr std::array<const Backend*, 1> kBackends = {&kCpuBackend};
}  // namespace

std::span<const Backend* const> all_backends() { return kBackends; }
const Backend& default_backend(bool /*to_train*/) { return kCpuBackend; }

Result<const Backend*> choose_backend(std::string_view name) {
  if (name.empty() || name == kCpuBackend.name) return kBackends.front();
  return make_error(ErrorCode::kInvalidArgument, "the module computes on the backend \"cpu\" only");
}

}  // namespace ballast
