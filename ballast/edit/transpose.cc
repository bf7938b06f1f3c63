#include "ballast/edit/transpose.h"

#include <algorithm>
#include <array>

namespace ballast {

namespace {

constexpr size_t kChunk = size_t{1} << 20;  // bytes of the result put together at a time
constexpr size_t kTile = 32;                // rows of the source read side by side, so that cache lines are used up

// Columns [begin, begin + count) of a matrix, one after the other. `Bits` has the size of an element.
template <typename Element>
void gather_columns(const std::byte* in, size_t rows, size_t columns, size_t begin, size_t count, std::byte* out) {
  for (size_t first = 0; first < rows; first += kTile) {
    const size_t last = std::min(rows, first + kTile);
    for (size_t column = 0; column < count; ++column) {
      for (size_t row = first; row < last; ++row) {
        std::memcpy(out + (column * rows + row) * sizeof(Element),
                    in + (row * columns + begin + column) * sizeof(Element), sizeof(Element));
      }
    }
  }
}

using GatherColumns = void (*)(const std::byte*, size_t, size_t, size_t, size_t, std::byte*);

GatherColumns gather_for(size_t element_size) {
  switch (element_size) {
    case 1: return gather_columns<std::array<std::byte, 1>>;
    case 2: return gather_columns<std::array<std::byte, 2>>;
    case 4: return gather_columns<std::array<std::byte, 4>>;
    case 8: return gather_columns<std::array<std::byte, 8>>;
    case 16: return gather_columns<std::array<std::byte, 16>>;
    case 32: return gather_columns<std::array<std::byte, 32>>;
    default: return nullptr;
  }
}

Status write_transposed(ByteSpan payload, size_t rows, size_t columns, size_t element_size, ByteSink& sink) {
  const GatherColumns gather = gather_for(element_size);
  const size_t column_bytes = rows * element_size;
  const size_t at_once = std::clamp<size_t>(kChunk / column_bytes, 1, columns);
  ByteVector chunk(at_once * column_bytes);
  for (size_t begin = 0; begin < columns; begin += at_once) {
    const size_t count = std::min(at_once, columns - begin);
    gather(payload.data(), rows, columns, begin, count, chunk.data());
    BALLAST_CHECK(sink.write(ByteSpan(chunk).first(count * column_bytes)));
  }
  return {};
}

}  // namespace

bool can_transpose(const TensorInfo& tensor) {
  return tensor.shape.rank() == 2 && has_elements(tensor.dtype) && dtype_info(tensor.dtype).bits % 8 == 0;
}

TensorProvider transposed(TensorProvider draw, uint64_t rows, uint64_t columns, size_t element_size,
                          const std::shared_ptr<MemoryGate>& gate) {
  if (rows <= 1 || columns <= 1) return draw;  // the same bytes
  return [draw = std::move(draw), rows, columns, element_size, gate](ByteSink& sink) -> Status {
    const uint64_t bytes = rows * columns * element_size;
    const MemoryGate::Pass pass(*gate, bytes);
    ByteVector payload(static_cast<size_t>(bytes));
    SpanSink whole(payload);
    BALLAST_CHECK(draw(whole));
    BALLAST_CHECK(whole.finish());
    return write_transposed(payload, static_cast<size_t>(rows), static_cast<size_t>(columns), element_size, sink);
  };
}

void transpose_tensor(WritePlan& plan, size_t index, const std::shared_ptr<MemoryGate>& gate) {
  TensorInfo& info = plan.description.tensors[index];
  const uint64_t rows = info.shape[0];
  const uint64_t columns = info.shape[1];
  info.shape = Shape{columns, rows};
  info.set_stored_form({});
  plan.providers[index] =
      transposed(std::move(plan.providers[index]), rows, columns, dtype_info(info.dtype).bits / 8, gate);
}

}  // namespace ballast
