#include "ballast/training/json_values.h"

#include <fmt/format.h>

namespace ballast {

namespace {

uint64_t product_from(const Shape& shape, size_t axis) {
  uint64_t product = 1;
  for (size_t i = axis; i < shape.rank(); ++i) product *= shape[i];
  return product;
}

void append_axis(std::string& out, const Shape& shape, size_t axis, std::span<const float> values) {
  if (axis == shape.rank()) {
    out += python_real(static_cast<double>(values[0]));
    return;
  }
  const auto step = static_cast<size_t>(product_from(shape, axis + 1));
  out += '[';
  for (uint64_t i = 0; i < shape[axis]; ++i) {
    if (i > 0) out += ", ";
    append_axis(out, shape, axis + 1, values.subspan(i * step, step));
  }
  out += ']';
}

Status read_axis(JsonReader& json, const Shape& shape, size_t axis, std::span<float> values, const std::string& what) {
  const auto wrong = [&] {
    return make_error(ErrorCode::kInvalidArgument,
                      json.error_here(fmt::format("{} must be numbers of shape {}", what, shape.to_string())).message);
  };
  if (axis == shape.rank()) {
    const auto value = json.read_double();
    if (!value) return wrong();
    values[0] = static_cast<float>(*value);
    return {};
  }
  const auto step = static_cast<size_t>(product_from(shape, axis + 1));
  if (!json.enter_array()) return wrong();
  for (uint64_t i = 0;; ++i) {
    const auto more = json.next_element();
    if (!more || *more != (i < shape[axis])) return wrong();
    if (!*more) return {};
    BALLAST_CHECK(read_axis(json, shape, axis + 1, values.subspan(i * step, step), what));
  }
}

}  // namespace

void append_nested(std::string& out, const Shape& shape, std::span<const float> values) {
  append_axis(out, shape, 0, values);
}

Status read_nested(JsonReader& json, const Shape& shape, std::span<float> values, const std::string& what) {
  return read_axis(json, shape, 0, values, what);
}

}  // namespace ballast
