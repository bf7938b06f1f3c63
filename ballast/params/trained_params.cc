#include "ballast/params/trained_params.h"

#include <fmt/format.h>

#include <cstring>

#include "ballast/base/checked.h"
#include "ballast/params/buffer.h"

namespace ballast {

TrainedParams::TrainedParams(std::string name) : name_(std::move(name)) {}
TrainedParams::~TrainedParams() = default;
TrainedParams::TrainedParams(TrainedParams&&) noexcept = default;
TrainedParams& TrainedParams::operator=(TrainedParams&&) noexcept = default;

MutableByteSpan TrainedParams::bytes(size_t index) {
  return {buffers_[index].data(), static_cast<size_t>(infos_[index].byte_size)};
}

std::optional<ByteSpan> TrainedParams::view(size_t index) const {
  return ByteSpan(buffers_[index].data(), static_cast<size_t>(infos_[index].byte_size));
}

Result<size_t> TrainedParams::add(TensorInfo info) {
  const BaseParamId id = base_param_id(info.name);
  if (by_id_.contains(id.bytes)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: two parameters are called \"{}\"", name_, info.name));
  }
  const auto count = info.shape.element_count();
  const auto bytes = count ? checked_mul(*count, dtype_info(info.dtype).bits / 8) : std::nullopt;
  Buffer buffer;
  if (bytes) buffer = Buffer(*bytes);
  if (!bytes || buffer.empty()) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("{}: no memory for parameter \"{}\" {}", name_, info.name, info.shape.to_string()));
  }
  info.byte_size = *bytes;
  std::memset(buffer.data(), 0, static_cast<size_t>(*bytes));
  by_id_.emplace(id.bytes, infos_.size());
  infos_.push_back(std::move(info));
  buffers_.push_back(std::move(buffer));
  return infos_.size() - 1;
}

std::optional<size_t> TrainedParams::find(const BaseParamId& id) const {
  const auto found = by_id_.find(id.bytes);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

Status TrainedParams::read(size_t index, uint64_t offset, MutableByteSpan out) const {
  const TensorInfo& info = infos_[index];
  if (!range_fits(offset, out.size(), info.byte_size)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: parameter \"{}\" has {} bytes, not {} at {}", name_,
                                                               info.name, info.byte_size, out.size(), offset));
  }
  if (!out.empty()) std::memcpy(out.data(), buffers_[index].data() + offset, out.size());
  return {};
}

}  // namespace ballast
