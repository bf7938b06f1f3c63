#include "ballast/base/shape.h"

#include <algorithm>
#include <utility>

#include "ballast/base/checked.h"

namespace ballast {

Shape::Shape(std::span<const uint64_t> dims) : rank_(static_cast<uint32_t>(dims.size())) {
  if (rank_ > kInline) storage_.heap = new uint64_t[rank_];
  std::copy(dims.begin(), dims.end(), rank_ > kInline ? storage_.heap : storage_.inside);
}

void Shape::swap(Shape& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(rank_, other.rank_);
}

std::optional<uint64_t> Shape::element_count() const {
  uint64_t count = 1;
  for (const uint64_t dim : dims()) {
    const auto next = checked_mul(count, dim);
    if (!next) return std::nullopt;
    count = *next;
  }
  return count;
}

std::string Shape::to_string() const {
  std::string out = "[";
  for (size_t i = 0; i < rank_; ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(dims()[i]);
  }
  return out + "]";
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

std::optional<uint64_t> packed_size(const Shape& shape, DType dtype) {
  if (!has_fixed_size(dtype)) return std::nullopt;
  const auto elements = shape.element_count();
  if (!elements) return std::nullopt;
  const DTypeInfo& type = dtype_info(dtype);
  if (is_block(dtype)) {  // blocks never cross the end of a row
    if (shape.rank() == 0 || shape[shape.rank() - 1] % type.block_elements != 0) return std::nullopt;
    return checked_mul(*elements / type.block_elements, type.block_bytes);
  }
  const auto bits = checked_mul(*elements, type.bits);
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

Status check_packed_size(const Shape& shape, DType dtype, uint64_t size) {
  const auto wanted = packed_size(shape, dtype);
  if (wanted == size) return {};
  const std::string tensor = std::string(dtype_name(dtype)) + " of shape " + shape.to_string();
  return make_error(ErrorCode::kInvalidArgument,
                    tensor + (wanted ? " has " + std::to_string(*wanted) + " bytes, not " + std::to_string(size)
                                     : " cannot be stored: it is too large, or no number of whole bytes"));
}

}  // namespace ballast
