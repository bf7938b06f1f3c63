#include "ballast/params/narrow_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ballast/base/checked.h"
#include "ballast/tensor/cast.h"

namespace ballast {

namespace {

constexpr uint64_t kNarrow = sizeof(float), kWide = sizeof(double);
constexpr uint64_t kElementsAtOnce = 64 << 10;

bool is_wide(const TensorInfo& info) { return info.dtype == DType::kF64; }

class NarrowedParams final : public ParamSource {
 public:
  explicit NarrowedParams(std::shared_ptr<const ParamSource> source) : source_(std::move(source)) {
    for (TensorInfo info : source_->params()) {
      if (is_wide(info)) {
        info.dtype = DType::kF32;
        info.byte_size /= kWide / kNarrow;
      }
      infos_.push_back(std::move(info));
    }
  }

  std::span<const TensorInfo> params() const override { return infos_; }
  std::optional<size_t> find(std::string_view name) const override { return source_->find(name); }
  std::optional<size_t> find(const BaseParamId& id) const override { return source_->find(id); }
  const std::string& name() const override { return source_->name(); }
  bool reads_parts(size_t index) const override { return source_->reads_parts(index); }
  bool is_constant() const override { return source_->is_constant(); }
  std::optional<ByteSpan> view(size_t index) const override {
    return is_wide(source_->params()[index]) ? std::nullopt : source_->view(index);
  }

  Status read(size_t index, uint64_t offset, MutableByteSpan out) const override {
    if (!is_wide(source_->params()[index])) return source_->read(index, offset, out);
    if (!range_fits(offset, out.size(), infos_[index].byte_size)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: tensor \"{}\" has {} bytes, not {} at {}", name(), infos_[index].name,
                                    infos_[index].byte_size, out.size(), offset));
    }
    // What cannot be read in parts is read once.
    const uint64_t at_once = reads_parts(index) ? kElementsAtOnce : out.size() / kNarrow + 2;
    for (uint64_t done = 0; done < out.size();) {
      const uint64_t first = (offset + done) / kNarrow, skipped = (offset + done) % kNarrow;
      const uint64_t elements = std::min(at_once, (skipped + out.size() - done + kNarrow - 1) / kNarrow);
      BALLAST_TRY(const ByteVector narrow, read_elements(index, first, elements));
      const uint64_t bytes = std::min<uint64_t>(narrow.size() - skipped, out.size() - done);
      std::memcpy(out.data() + done, narrow.data() + skipped, bytes);
      done += bytes;
    }
    return {};
  }

 private:
  Result<ByteVector> read_elements(size_t index, uint64_t first, uint64_t count) const {
    ByteVector wide(count * kWide), narrow(count * kNarrow);
    BALLAST_CHECK(source_->read(index, first * kWide, wide));
    auto cast = cast_elements(DType::kF64, wide, DType::kF32, narrow, first);
    if (!cast) return std::move(cast).error().with_context(fmt::format("tensor \"{}\"", infos_[index].name));
    return narrow;
  }

  std::shared_ptr<const ParamSource> source_;
  std::vector<TensorInfo> infos_;
};

}  // namespace

std::shared_ptr<const ParamSource> narrow_f64_params(std::shared_ptr<const ParamSource> source) {
  if (std::ranges::none_of(source->params(), is_wide)) return source;
  return std::make_shared<NarrowedParams>(std::move(source));
}

}  // namespace ballast
