// The kernels that are compiled into the library. A row names the file that has it, kernels/<module>.cu, and the
// `extern "C" __global__` function; the build fails where a row has no function or a function no row
// (cmake/pack_kernels.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// X(module, function)
// clang-format off
#define BALLAST_CUDA_KERNELS(X) \
  X(elementwise, fill_f32) X(elementwise, unary_f32) X(elementwise, binary_f32) X(elementwise, clamp_f32) \
  X(elementwise, swiglu_f32) X(elementwise, add_bias_f32) X(elementwise, prelu_f32) X(elementwise, scale_rows_f32) \
  X(elementwise, copy_runs_16) X(elementwise, copy_runs_4) X(elementwise, copy_runs_1) \
  X(elementwise, join_columns_4) X(elementwise, permute_1) X(elementwise, permute_2) X(elementwise, permute_4) \
  X(elementwise, permute_8) X(elementwise, reduce_all_f32) X(rows, layer_norm_f32) X(rows, rms_norm_f32) \
  X(rows, softmax_f32) X(rows, sum_rows_f32) X(rows, lookup_f32) X(rows, rope_f32) X(rows, pairs_to_halves_f32) \
  X(rows, expert_gates_f32) X(rows, add_expert_f32) X(attention, attention_tiles_f32_64) \
  X(attention, attention_tiles_f32_128) X(attention, attention_tiles_f32_256) X(attention, attention_tiles_f16_64) \
  X(attention, attention_tiles_f16_128) X(attention, attention_tiles_f16_256) X(attention, attention_chunks_f32_64) \
  X(attention, attention_chunks_f32_128) X(attention, attention_chunks_f32_256) \
  X(attention, attention_chunks_f16_64) X(attention, attention_chunks_f16_128) \
  X(attention, attention_chunks_f16_256) X(attention, attention_merge) X(attention, store_past) \
  X(conv, convolve_bf16_fast_small) X(conv, convolve_bf16_fast_tall) X(conv, convolve_bf16_exact_small) \
  X(conv, convolve_bf16_exact_tall) X(conv, convolve_f16_small) X(conv, convolve_f16_tall) \
  X(conv, convolve_f32_small) X(conv, convolve_f32_tall) X(conv, sum_segments) X(conv, pad_channels) \
  X(conv, arrange_filters_bf16) X(conv, arrange_filters_f16) X(conv, arrange_filters_f32) \
  X(conv, arrange_single_filters) X(conv, convolve_single_f32) X(conv, convolve_groups_f32) \
  X(conv, convolve_transposed_f32) X(images, pool_f32) X(images, pool_fours_f32) X(images, mean_of_pixels_f32) \
  X(images, upsample_f32) X(images, batch_norm_f32) X(images, group_norm_f32) X(past, turn_and_store) \
  X(products, product_plain) X(products, split_activations_blocks) X(products, split_activations_blocks_32) \
  X(products, split_activations_blocks_16) X(products, split_activations_f16) X(products, split_activations_bf16_2) \
  X(products, split_activations_bf16_3) X(products, transpose_2) X(products, transpose_4) \
  X(products_row, product_f32_row) X(products, product_f32_tile) X(products, product_f32_wide) \
  X(products_row, product_f16_row) X(products, product_f16_tile) X(products, product_f16_wide) \
  X(products_row, product_bf16_fast_row) X(products, product_bf16_fast_tile) X(products, product_bf16_fast_wide) \
  X(products_row, product_bf16_exact_row) X(products, product_bf16_exact_tile) X(products, product_bf16_exact_wide) \
  X(products_row, product_q8_0_row) X(products, product_q8_0_tile) X(products, product_q8_0_wide) \
  X(products, repack_q8_0) X(products_row, product_q4_0_row) X(products, product_q4_0_tile) \
  X(products, product_q4_0_wide) X(products, repack_q4_0) X(products_row, product_q4_1_row) \
  X(products, product_q4_1_tile) X(products, product_q4_1_wide) X(products, repack_q4_1) \
  X(products_row, product_q5_0_row) X(products, product_q5_0_tile) X(products, product_q5_0_wide) \
  X(products, repack_q5_0) X(products_row, product_q5_1_row) X(products, product_q5_1_tile) \
  X(products, product_q5_1_wide) X(products, repack_q5_1) X(products_row, product_q2_k_row) \
  X(products, product_q2_k_tile) X(products, product_q2_k_wide) X(products, repack_q2_k) \
  X(products_row, product_q3_k_row) X(products, product_q3_k_tile) X(products, product_q3_k_wide) \
  X(products, repack_q3_k) X(products_row, product_q4_k_row) X(products, product_q4_k_tile) \
  X(products, product_q4_k_wide) X(products, repack_q4_k) X(products_row, product_q5_k_row) \
  X(products, product_q5_k_tile) X(products, product_q5_k_wide) X(products, repack_q5_k) \
  X(products_row, product_q6_k_row) X(products, product_q6_k_tile) X(products, product_q6_k_wide) \
  X(products, repack_q6_k) X(products_many, product_f32_many_64) X(products_many, product_f16_many_64) \
  X(products_many, product_f16_many_128) X(products_many, product_bf16_fast_many_64) \
  X(products_many, product_bf16_fast_many_128) X(products_many, product_bf16_exact_many_64) \
  X(products_many, product_bf16_exact_many_128) X(products_many, product_q8_0_many_64) \
  X(products_many, product_q8_0_many_128) X(products_many, product_q4_0_many_64) \
  X(products_many, product_q4_0_many_128) X(products_many, product_q4_1_many_64) \
  X(products_many, product_q4_1_many_128) X(products_many, product_q5_0_many_64) \
  X(products_many, product_q5_0_many_128) X(products_many, product_q5_1_many_64) \
  X(products_many, product_q5_1_many_128) X(products_many, product_q2_k_many_64) \
  X(products_many, product_q2_k_many_128) X(products_many, product_q3_k_many_64) \
  X(products_many, product_q3_k_many_128) X(products_many, product_q4_k_many_64) \
  X(products_many, product_q4_k_many_128) X(products_many, product_q5_k_many_64) \
  X(products_many, product_q5_k_many_128) X(products_many, product_q6_k_many_64) \
  X(products_many, product_q6_k_many_128)
// clang-format on

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
