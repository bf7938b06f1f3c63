#include "ballast/archive/transpose.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "ballast/archive/slice.h"

namespace ballast {

namespace {

constexpr uint64_t kTile = 256;  // rows and columns compared at a time

uint64_t element_size(const TensorInfo& tensor) { return dtype_info(tensor.dtype).bits / 8; }

// One of the two matrices, whole where that costs no copy or cannot be avoided, and otherwise read by tiles.
class Matrix {
 public:
  Matrix(const Archive& archive, size_t tensor) : archive_(archive), tensor_(tensor) {}

  const TensorInfo& info() const { return archive_.tensors()[tensor_]; }
  // Bytes of its own that open() takes.
  uint64_t cost() const { return archive_.extent(tensor_).is_canonical() ? 0 : info().byte_size; }

  Status open() {
    const StoredExtent& extent = archive_.extent(tensor_);
    if (extent.is_canonical()) {
      const auto view = archive_.sources()[extent.source]->view(extent.offset, extent.length);
      if (view) whole_.emplace(*view);
      return {};
    }
    BALLAST_TRY(Payload payload, archive_.payload(tensor_));
    whole_.emplace(std::move(payload));
    return {};
  }

  struct Tile {
    BytesOrView bytes;
    uint64_t stride;  // of a row, in bytes
  };
  Result<Tile> tile(uint64_t row, uint64_t rows, uint64_t column, uint64_t columns) const {
    const uint64_t size = element_size(info());
    const uint64_t stride = info().shape[1] * size;
    if (whole_) {
      const auto begin = static_cast<size_t>(row * stride + column * size);
      return Tile{BytesOrView(whole_->bytes().subspan(begin)), stride};
    }
    Selection selection;
    selection.axes = {{{{row, 1, rows}}, true}, {{{column, 1, columns}}, true}};
    selection.shape = Shape{rows, columns};
    selection.elements = rows * columns;
    BALLAST_TRY(SliceResult slice, read_slice(archive_, tensor_, selection));
    return Tile{BytesOrView(std::move(slice.payload)), columns * size};
  }

 private:
  const Archive& archive_;
  size_t tensor_;
  std::optional<Payload> whole_;
};

template <size_t kSize>
bool tiles_match(const Matrix::Tile& a, const Matrix::Tile& b, uint64_t rows, uint64_t columns) {
  const std::byte* from_a = a.bytes.bytes().data();
  const std::byte* from_b = b.bytes.bytes().data();
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      if (std::memcmp(from_a + row * a.stride + column * kSize, from_b + column * b.stride + row * kSize, kSize) != 0) {
        return false;
      }
    }
  }
  return true;
}

bool tiles_match(uint64_t size, const Matrix::Tile& a, const Matrix::Tile& b, uint64_t rows, uint64_t columns) {
  switch (size) {
    case 1: return tiles_match<1>(a, b, rows, columns);
    case 2: return tiles_match<2>(a, b, rows, columns);
    case 4: return tiles_match<4>(a, b, rows, columns);
    case 8: return tiles_match<8>(a, b, rows, columns);
    default: return tiles_match<16>(a, b, rows, columns);
  }
}

// Spreads every bit over all (the finalizer of MurmurHash3).
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDULL;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return value ^ (value >> 33);
}

// Adds up elements mixed with the place they have, or would have once transposed; sums do not care in which order.
class FingerprintSink final : public ByteSink {
 public:
  FingerprintSink(const TensorInfo& tensor, bool swapped)
      : size_(element_size(tensor)), rows_(tensor.shape[0]), columns_(tensor.shape[1]), swapped_(swapped) {}

  // Pieces come in multiples of 16 bytes, but for the last.
  Status write(ByteSpan bytes) override {
    for (size_t at = 0; at + size_ <= bytes.size(); at += static_cast<size_t>(size_)) add(bytes.data() + at);
    taken_ += bytes.size();
    return {};
  }
  Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "a sum has no past"); }
  uint64_t position() const override { return taken_; }

  uint64_t sum() const { return sum_; }

 private:
  void add(const std::byte* element) {
    uint64_t words[2] = {};
    std::memcpy(words, element, static_cast<size_t>(size_));
    const uint64_t place = swapped_ ? column_ * rows_ + row_ : row_ * columns_ + column_;
    sum_ += mixed(words[0] ^ mixed(words[1] + place + 1));
    if (++column_ == columns_) {
      column_ = 0;
      ++row_;
    }
  }

  uint64_t size_;
  uint64_t rows_;
  uint64_t columns_;
  bool swapped_;
  uint64_t row_ = 0;
  uint64_t column_ = 0;
  uint64_t sum_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

bool is_matrix(const TensorInfo& tensor) {
  const unsigned bits = dtype_info(tensor.dtype).bits;
  const bool whole = bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128;
  return tensor.shape.rank() == 2 && whole && tensor.byte_size != 0;
}

bool may_be_transposed(const TensorInfo& a, const TensorInfo& b) {
  return is_matrix(a) && is_matrix(b) && a.dtype == b.dtype && a.shape[0] == b.shape[1] && a.shape[1] == b.shape[0];
}

Result<bool> is_transposed(const Archive& a, size_t tensor_a, const Archive& b, size_t tensor_b, MemoryGate& gate) {
  Matrix matrix_a(a, tensor_a);
  Matrix matrix_b(b, tensor_b);
  std::optional<MemoryGate::Pass> pass;
  if (matrix_a.cost() + matrix_b.cost() != 0) pass.emplace(gate, matrix_a.cost() + matrix_b.cost());
  BALLAST_CHECK(matrix_a.open());
  BALLAST_CHECK(matrix_b.open());
  const uint64_t rows = matrix_a.info().shape[0];
  const uint64_t columns = matrix_a.info().shape[1];
  const uint64_t size = element_size(matrix_a.info());
  for (uint64_t row = 0; row < rows; row += kTile) {
    const uint64_t height = std::min(kTile, rows - row);
    for (uint64_t column = 0; column < columns; column += kTile) {
      const uint64_t width = std::min(kTile, columns - column);
      BALLAST_TRY(const Matrix::Tile tile_a, matrix_a.tile(row, height, column, width));
      BALLAST_TRY(const Matrix::Tile tile_b, matrix_b.tile(column, width, row, height));
      if (!tiles_match(size, tile_a, tile_b, height, width)) return false;
    }
  }
  return true;
}

Result<uint64_t> transpose_fingerprint(const TensorInfo& tensor, const TensorProvider& provider, bool swapped) {
  FingerprintSink sink(tensor, swapped);
  BALLAST_CHECK(provider(sink));
  return sink.sum();
}

}  // namespace ballast
