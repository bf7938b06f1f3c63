#include "ballast/formats/payload_order.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ballast {

namespace {

size_t component_size(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  return info.bits / 8 / (info.kind == DTypeKind::kComplex ? 2 : 1);
}

// `in` is row-major with dimensions `dims`; `out` gets the same elements row-major with the axes reversed.
void reverse_axes(std::span<const uint64_t> dims, ByteSpan in, MutableByteSpan out) {
  if (in.empty()) return;
  // Axis k of `out` is axis rank-1-k of `in`.
  const std::vector<uint64_t> reversed(dims.rbegin(), dims.rend());
  std::vector<uint64_t> strides(dims.size());
  uint64_t elements = 1;
  for (size_t k = 0; k < reversed.size(); ++k) {
    strides[k] = elements;
    elements *= reversed[k];
  }
  gather_strided(reversed, strides, static_cast<size_t>(in.size() / elements), in, out);
}

// Of ggml's blocks, those whose only numbers of several bytes are halves at the front or at the back. Of the others
// nobody has settled which words a big-endian file swaps: ggml reads the same bytes now as words, now as bytes.
struct BlockHalves {
  DType dtype;
  uint8_t front;
  uint8_t back;
};
constexpr std::array kBlockHalves = {
    BlockHalves{DType::kQ1_0, 1, 0},  BlockHalves{DType::kQ2_0, 1, 0},  BlockHalves{DType::kQ4_0, 1, 0},
    BlockHalves{DType::kQ4_1, 2, 0},  BlockHalves{DType::kQ8_0, 1, 0},  BlockHalves{DType::kQ8_1, 2, 0},
    BlockHalves{DType::kQ2K, 0, 2},   BlockHalves{DType::kQ3K, 0, 1},   BlockHalves{DType::kQ4K, 2, 0},
    BlockHalves{DType::kQ5K, 2, 0},   BlockHalves{DType::kQ6K, 0, 1},   BlockHalves{DType::kIQ4NL, 1, 0},
    BlockHalves{DType::kTQ1_0, 0, 1}, BlockHalves{DType::kTQ2_0, 0, 1}, BlockHalves{DType::kMXFP4, 0, 0},
    BlockHalves{DType::kNVFP4, 0, 0},
};

const BlockHalves* find_halves(DType dtype) {
  const auto found = std::ranges::find(kBlockHalves, dtype, &BlockHalves::dtype);
  return found == kBlockHalves.end() ? nullptr : &*found;
}

void swap_blocks(DType dtype, MutableByteSpan payload) {
  const BlockHalves* halves = find_halves(dtype);
  const size_t block = dtype_info(dtype).block_bytes;
  if (halves == nullptr) return;
  for (size_t at = 0; at + block <= payload.size(); at += block) {
    const MutableByteSpan bytes = payload.subspan(at, block);
    for (size_t i = 0; i < halves->front; ++i) std::swap(bytes[2 * i], bytes[2 * i + 1]);
    for (size_t i = 1; i <= halves->back; ++i) std::swap(bytes[block - 2 * i], bytes[block - 2 * i + 1]);
  }
}

}  // namespace

void gather_strided(std::span<const uint64_t> dims, std::span<const uint64_t> strides, size_t element_size, ByteSpan in,
                    MutableByteSpan out) {
  // The last axes that lie in one piece are copied as one.
  size_t rank = dims.size();
  size_t piece = element_size;
  while (rank > 0 && (dims[rank - 1] == 1 || strides[rank - 1] * element_size == piece)) {
    piece *= static_cast<size_t>(dims[--rank]);
  }
  if (piece == 0) return;  // elements of no bytes
  std::vector<size_t> stride(rank);
  for (size_t k = 0; k < rank; ++k) stride[k] = static_cast<size_t>(strides[k]) * element_size;
  std::vector<uint64_t> index(rank, 0);
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += piece) {
    std::memcpy(out.data() + to, in.data() + from, piece);
    for (size_t k = rank; k-- > 0;) {
      from += stride[k];
      if (++index[k] < dims[k]) break;
      from -= stride[k] * static_cast<size_t>(index[k]);
      index[k] = 0;
    }
  }
}

void flip_signs(DType dtype, SignsOf which, MutableByteSpan payload) {
  const size_t component = component_size(dtype);
  const bool imaginary_only = which == SignsOf::kImaginary;
  const size_t step = imaginary_only ? 2 * component : component;
  for (size_t at = step - 1; at < payload.size(); at += step) payload[at] ^= std::byte{0x80};
}

bool is_byte_order_free(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  if (info.kind == DTypeKind::kBlock)
    return find_halves(dtype) != nullptr && find_halves(dtype)->front == 0 && find_halves(dtype)->back == 0;
  return info.bits <= 8;
}

bool can_swap_byte_order(DType dtype) { return !is_block(dtype) || find_halves(dtype) != nullptr; }

void swap_byte_order(DType dtype, MutableByteSpan payload) {
  if (is_byte_order_free(dtype)) return;
  if (is_block(dtype)) return swap_blocks(dtype, payload);
  const size_t component = component_size(dtype);
  for (size_t at = 0; at + component <= payload.size(); at += component) {
    std::reverse(payload.begin() + static_cast<ptrdiff_t>(at),
                 payload.begin() + static_cast<ptrdiff_t>(at + component));
  }
}

void fortran_to_row_major(const Shape& shape, ByteSpan in, MutableByteSpan out) {
  const std::vector<uint64_t> reversed(shape.dims().rbegin(), shape.dims().rend());
  reverse_axes(reversed, in, out);
}

void row_major_to_fortran(const Shape& shape, ByteSpan in, MutableByteSpan out) { reverse_axes(shape.dims(), in, out); }

}  // namespace ballast
