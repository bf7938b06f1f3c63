#include "ballast/formats/payload_order.h"

#include <algorithm>
#include <vector>

namespace ballast {

namespace {

// `in` is row-major with dimensions `dims`; `out` gets the same elements row-major with the axes reversed.
void reverse_axes(std::span<const uint64_t> dims, ByteSpan in, MutableByteSpan out) {
  if (in.empty()) return;
  size_t elements = 1;
  for (const uint64_t dim : dims) elements *= static_cast<size_t>(dim);
  const size_t element_size = in.size() / elements;
  const size_t rank = dims.size();
  // Walking `out` in order, axis k of `out` is axis rank-1-k of `in`.
  std::vector<size_t> stride(rank);
  size_t step = element_size;
  for (size_t axis = rank; axis-- > 0;) {
    stride[rank - 1 - axis] = step;
    step *= static_cast<size_t>(dims[axis]);
  }
  std::vector<size_t> index(rank, 0);
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += element_size) {
    std::memcpy(out.data() + to, in.data() + from, element_size);
    for (size_t k = rank; k-- > 0;) {
      from += stride[k];
      if (++index[k] < dims[rank - 1 - k]) break;
      from -= stride[k] * index[k];
      index[k] = 0;
    }
  }
}

}  // namespace

void swap_byte_order(DType dtype, MutableByteSpan payload) {
  const DTypeInfo& info = dtype_info(dtype);
  const size_t component = info.bits / 8 / (info.kind == DTypeKind::kComplex ? 2 : 1);
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
