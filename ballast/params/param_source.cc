#include "ballast/params/param_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ballast/base/checked.h"
#include "ballast/formats/id_index.h"
#include "ballast/formats/payload_order.h"

namespace ballast {

namespace {

Status check_range(const ParamSource& source, size_t index, uint64_t offset, uint64_t length) {
  const TensorInfo& info = source.params()[index];
  if (range_fits(offset, length, info.byte_size)) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: tensor \"{}\" has {} bytes, not {} at {}",
                                                             source.name(), info.name, info.byte_size, length, offset));
}

class ArchiveSource final : public ParamSource {
 public:
  explicit ArchiveSource(std::shared_ptr<const Archive> archive) : archive_(std::move(archive)) {
    if (!archive_->sources().empty()) name_ = archive_->sources().front()->name();
  }

  std::span<const TensorInfo> params() const override { return archive_->tensors(); }
  std::optional<size_t> find(std::string_view name) const override { return archive_->find(name); }
  std::optional<size_t> find(const BaseParamId& id) const override { return archive_->find(id); }
  const std::string& name() const override { return name_; }

  Status read(size_t index, uint64_t offset, MutableByteSpan out) const override {
    if (Status status = read_checked(index, offset, out); !status) {
      return std::move(status).error().with_context(fmt::format("tensor \"{}\"", params()[index].name));
    }
    return {};
  }

  std::optional<ByteSpan> view(size_t index) const override {
    const StoredExtent& extent = archive_->extent(index);
    if (!extent.is_canonical() || !bytes_of(index).check(extent.offset, extent.length)) return std::nullopt;
    return bytes_of(index).view(extent.offset, extent.length);
  }

  bool reads_parts(size_t index) const override {
    const StoredExtent& extent = archive_->extent(index);
    return !extent.deflated && !extent.fortran_order && extent.view == nullptr;
  }

 private:
  const ByteSource& bytes_of(size_t index) const { return *archive_->sources()[archive_->extent(index).source]; }

  Status read_checked(size_t index, uint64_t offset, MutableByteSpan out) const {
    BALLAST_CHECK(check_range(*this, index, offset, out.size()));
    if (out.empty()) return {};
    const StoredExtent& extent = archive_->extent(index);
    BALLAST_CHECK(bytes_of(index).check(extent.offset, extent.length));
    if (!reads_swapped_part(index, offset, out.size())) return archive_->read_range(index, offset, out);
    BALLAST_CHECK(bytes_of(index).read_at(extent.offset + offset, out));
    swap_byte_order(params()[index].dtype, out);
    return {};
  }

  // Whole elements in the other byte order and nothing else to undo.
  bool reads_swapped_part(size_t index, uint64_t offset, uint64_t length) const {
    if (!archive_->extent(index).big_endian || !reads_parts(index)) return false;
    const uint64_t element = dtype_info(params()[index].dtype).bits / 8;
    return element != 0 && offset % element == 0 && length % element == 0;
  }

  std::shared_ptr<const Archive> archive_;
  std::string name_ = "archive";
};

class MemoryParams final : public ParamSource {
 public:
  MemoryParams(std::vector<MemoryParam> params, std::string name) : name_(std::move(name)) {
    for (MemoryParam& param : params) {
      param.info.byte_size = param.payload.size();
      infos_.push_back(std::move(param.info));
      payloads_.push_back(std::move(param.payload));
    }
    by_name_.resize(infos_.size());
    std::iota(by_name_.begin(), by_name_.end(), size_t{0});
    std::ranges::stable_sort(by_name_, {}, [this](size_t index) -> const std::string& { return infos_[index].name; });
  }

  std::span<const TensorInfo> params() const override { return infos_; }
  const std::string& name() const override { return name_; }
  std::optional<ByteSpan> view(size_t index) const override { return payloads_[index]; }
  bool reads_parts(size_t) const override { return true; }

  std::optional<size_t> find(std::string_view name) const override {
    const auto found = std::ranges::lower_bound(
        by_name_, name, {}, [this](size_t index) -> std::string_view { return infos_[index].name; });
    if (found == by_name_.end() || infos_[*found].name != name) return std::nullopt;
    return *found;
  }
  std::optional<size_t> find(const BaseParamId& id) const override { return by_id_.find(infos_, id); }

  Status read(size_t index, uint64_t offset, MutableByteSpan out) const override {
    BALLAST_CHECK(check_range(*this, index, offset, out.size()));
    if (!out.empty()) std::memcpy(out.data(), payloads_[index].data() + offset, out.size());
    return {};
  }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<ByteVector> payloads_;
  std::vector<size_t> by_name_;
  IdIndex by_id_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const ParamSource> make_param_source(std::shared_ptr<const Archive> archive) {
  return std::make_shared<ArchiveSource>(std::move(archive));
}

std::shared_ptr<const ParamSource> make_param_source(std::vector<MemoryParam> params, std::string name) {
  return std::make_shared<MemoryParams>(std::move(params), std::move(name));
}

}  // namespace ballast
