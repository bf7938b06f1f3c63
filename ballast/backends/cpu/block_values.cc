// What kernels of every level need to know of blocks; compiled once, for any machine.
#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/tensor/blocks.h"

namespace ballast::cpu {

bool is_in_blocks(DType dtype) { return is_block(dtype); }

size_t bytes_of_blocks(DType dtype, size_t count) {
  const DTypeInfo& info = dtype_info(dtype);
  return count / info.block_elements * info.block_bytes;
}

void widen_blocks(DType dtype, const std::byte* blocks, float* out, size_t count) {
  if (const auto widen = block_kernels(dtype).widen) return widen(blocks, out, count);
  dequantize_blocks(dtype, {blocks, bytes_of_blocks(dtype, count)}, {out, count});
}

}  // namespace ballast::cpu
