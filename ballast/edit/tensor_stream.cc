#include "ballast/edit/tensor_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

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

class ReorderFilter final : public Filter {
 public:
  ReorderFilter(ByteSink& out, uint64_t row_bytes, const std::vector<uint64_t>& order)
      : out_(out), row_bytes_(row_bytes), order_(order), group_bytes_(row_bytes * order.size()) {}

  Status finish() const {
    if (pending_.empty()) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("rows of {} bytes cannot be reordered {} at a time: {} bytes are left over",
                                  row_bytes_, order_.size(), pending_.size()));
  }

 private:
  Status take(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const size_t length = std::min<size_t>(bytes.size(), static_cast<size_t>(group_bytes_) - pending_.size());
      pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      bytes = bytes.subspan(length);
      if (pending_.size() == group_bytes_) BALLAST_CHECK(write_group());
    }
    return {};
  }

  Status write_group() {
    for (const uint64_t row : order_) {
      BALLAST_CHECK(out_.write(ByteSpan(pending_).subspan(static_cast<size_t>(row * row_bytes_), row_bytes_)));
    }
    pending_.clear();
    return {};
  }

  ByteSink& out_;
  uint64_t row_bytes_;
  const std::vector<uint64_t>& order_;
  uint64_t group_bytes_;
  ByteVector pending_;
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

}  // namespace

Result<ByteVector> draw_all(const TensorProvider& provider, uint64_t size) {
  ByteVector bytes(static_cast<size_t>(size));
  SpanSink sink(bytes);
  BALLAST_CHECK(provider(sink));
  BALLAST_CHECK(sink.finish());
  return bytes;
}

TensorProvider row_ranges(TensorProvider provider, uint64_t row_bytes, uint64_t begin, uint64_t end) {
  return [provider = std::move(provider), row_bytes, begin, end](ByteSink& sink) -> Status {
    RangeFilter filter(sink, row_bytes, begin, end);
    return provider(filter);
  };
}

TensorProvider reordered_rows(TensorProvider provider, uint64_t row_bytes, std::vector<uint64_t> order) {
  return [provider = std::move(provider), row_bytes, order = std::move(order)](ByteSink& sink) -> Status {
    ReorderFilter filter(sink, row_bytes, order);
    BALLAST_CHECK(provider(filter));
    return filter.finish();
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
