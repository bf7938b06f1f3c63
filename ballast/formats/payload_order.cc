#include "ballast/formats/payload_order.h"

#include <algorithm>
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
  gather_strided(reversed, strides, in.size() / static_cast<size_t>(elements), in, out);
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

void swap_byte_order(DType dtype, MutableByteSpan payload) {
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
