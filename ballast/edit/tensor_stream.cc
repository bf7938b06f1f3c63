#include "ballast/edit/tensor_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

namespace ballast {

namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// Takes what a provider writes and hands on something else.
class Filter : public ByteSink {
 public:
  Status write(ByteSpan bytes) final {
    taken_ += bytes.size();
    return take(bytes);
  }
  Status patch(uint64_t, ByteSpan) final {
    return make_error(ErrorCode::kUnsupported, "a tensor that is being changed cannot be corrected afterwards");
  }
  uint64_t position() const final { return taken_; }

 protected:
  virtual Status take(ByteSpan bytes) = 0;

 private:
  uint64_t taken_ = 0;
};

class Holder final : public Filter {
 public:
  explicit Holder(MutableByteSpan room) : room_(room) {}
  uint64_t missing() const { return room_.size() - filled_; }

 private:
  Status take(ByteSpan bytes) override {
    if (bytes.size() > missing()) {
      return make_error(ErrorCode::kCorrupt, fmt::format("a tensor has more than its {} bytes", room_.size()));
    }
    std::ranges::copy(bytes, room_.begin() + static_cast<ptrdiff_t>(filled_));
    filled_ += bytes.size();
    return {};
  }

  MutableByteSpan room_;
  uint64_t filled_ = 0;
};

class RangeFilter final : public Filter {
 public:
  RangeFilter(ByteSink& out, uint64_t row_bytes, uint64_t begin, uint64_t end)
      : out_(out), row_bytes_(row_bytes), begin_(begin), end_(end) {}

 private:
  Status take(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const uint64_t length = std::min<uint64_t>(bytes.size(), row_bytes_ - in_row_);
      const uint64_t from = std::clamp(begin_, in_row_, in_row_ + length);
      const uint64_t to = std::clamp(end_, from, in_row_ + length);
      if (to > from) BALLAST_CHECK(out_.write(bytes.subspan(from - in_row_, to - from)));
      bytes = bytes.subspan(length);
      in_row_ = (in_row_ + length) % row_bytes_;
    }
    return {};
  }

  ByteSink& out_;
  uint64_t row_bytes_, begin_, end_;
  uint64_t in_row_ = 0;
};

class ValueFilter final : public Filter {
 public:
  ValueFilter(ByteSink& out, const ChangeValue& change) : out_(out), change_(change) {}

 private:
  Status take(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const size_t length = std::min(bytes.size(), kChunkBytes - pending_.size());
      pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      bytes = bytes.subspan(length);
      BALLAST_CHECK(change_whole_values());
    }
    return {};
  }

  // A write may end inside a value; its bytes wait for the rest.
  Status change_whole_values() {
    const size_t whole = pending_.size() / sizeof(float) * sizeof(float);
    for (size_t at = 0; at < whole; at += sizeof(float)) {
      const float value = std::bit_cast<float>(load_le<uint32_t>(&pending_[at]));
      store_le(&pending_[at], std::bit_cast<uint32_t>(change_(value, position_++)));
    }
    BALLAST_CHECK(out_.write(ByteSpan(pending_).first(whole)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(whole));
    return {};
  }

  ByteSink& out_;
  const ChangeValue& change_;
  ByteVector pending_;
  uint64_t position_ = 0;
};

// Columns [first, first + count) of the matrix become rows of `out`.
template <size_t kBytes>
void gather_columns(ByteSpan matrix, uint64_t rows, uint64_t columns, uint64_t first, uint64_t count,
                    MutableByteSpan out) {
  // Tiles keep both sides in the cache; a plain double loop is many times slower on large matrices.
  constexpr uint64_t kTile = 32;
  for (uint64_t row0 = 0; row0 < rows; row0 += kTile) {
    const uint64_t row_end = std::min(rows, row0 + kTile);
    for (uint64_t column0 = 0; column0 < count; column0 += kTile) {
      const uint64_t column_end = std::min(count, column0 + kTile);
      for (uint64_t column = column0; column < column_end; ++column) {
        for (uint64_t row = row0; row < row_end; ++row) {
          std::memcpy(&out[(column * rows + row) * kBytes], &matrix[(row * columns + first + column) * kBytes], kBytes);
        }
      }
    }
  }
}

using Gather = void (*)(ByteSpan, uint64_t, uint64_t, uint64_t, uint64_t, MutableByteSpan);

Gather gather_for(size_t element_bytes) {
  switch (element_bytes) {
    case 1: return gather_columns<1>;
    case 2: return gather_columns<2>;
    case 4: return gather_columns<4>;
    case 8: return gather_columns<8>;
    default: return gather_columns<16>;
  }
}

}  // namespace

Result<ByteVector> draw_all(const TensorProvider& provider, uint64_t size) {
  ByteVector bytes(static_cast<size_t>(size));
  Holder holder(bytes);
  BALLAST_CHECK(provider(holder));
  if (holder.missing() == 0) return bytes;
  return make_error(ErrorCode::kCorrupt, fmt::format("a tensor has {} of its {} bytes", size - holder.missing(), size));
}

TensorProvider transposed(TensorProvider provider, uint64_t rows, uint64_t columns, size_t element_bytes) {
  return [provider = std::move(provider), rows, columns, element_bytes](ByteSink& sink) -> Status {
    BALLAST_TRY(const ByteVector matrix, draw_all(provider, rows * columns * element_bytes));
    const uint64_t column_bytes = std::max<uint64_t>(rows * element_bytes, 1);
    const uint64_t at_once = std::clamp<uint64_t>(kChunkBytes / column_bytes, 1, std::max<uint64_t>(columns, 1));
    ByteVector out(static_cast<size_t>(at_once * rows * element_bytes));
    for (uint64_t first = 0; first < columns; first += at_once) {
      const uint64_t count = std::min(at_once, columns - first);
      gather_for(element_bytes)(matrix, rows, columns, first, count, out);
      BALLAST_CHECK(sink.write(ByteSpan(out).first(static_cast<size_t>(count * rows * element_bytes))));
    }
    return {};
  };
}

TensorProvider row_ranges(TensorProvider provider, uint64_t row_bytes, uint64_t begin, uint64_t end) {
  return [provider = std::move(provider), row_bytes, begin, end](ByteSink& sink) -> Status {
    RangeFilter filter(sink, row_bytes, begin, end);
    return provider(filter);
  };
}

TensorProvider joined(std::vector<TensorProvider> providers) {
  return [providers = std::move(providers)](ByteSink& sink) -> Status {
    for (const TensorProvider& provider : providers) BALLAST_CHECK(provider(sink));
    return {};
  };
}

TensorProvider changed_values(TensorProvider provider, MakeChange make_change) {
  return [provider = std::move(provider), make_change = std::move(make_change)](ByteSink& sink) -> Status {
    BALLAST_TRY(const ChangeValue change, make_change());
    ValueFilter filter(sink, change);
    return provider(filter);
  };
}

}  // namespace ballast
