#include "ballast/edit/quantize_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ballast/io/parallel.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

// Elements: what is in memory at a time, and what one thread takes of it.
constexpr size_t kQuantizePiece = size_t{1} << 20;
constexpr size_t kQuantizePart = size_t{64} << 10;

QuantizationError error_between(std::span<const float> before, std::span<const float> after) {
  QuantizationError error;
  error.count = before.size();
  for (size_t i = 0; i < before.size(); ++i) {
    const auto value = static_cast<double>(before[i]);
    const double off = std::abs(value - static_cast<double>(after[i]));
    error.squared_error += off * off;
    error.squared_values += value * value;
    error.max_abs = std::max(error.max_abs, off);
  }
  return error;
}

// The first value that is not finite; all of them: nothing.
std::optional<size_t> first_non_finite(std::span<const float> values) {
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (found == values.end()) return std::nullopt;
  return static_cast<size_t>(found - values.begin());
}

}  // namespace

QuantizeSink::QuantizeSink(DType to, const std::string& name, unsigned threads, ByteSink& out)
    : to_(to),
      name_(name),
      threads_(threads),
      out_(out),
      units_(dtype_info(to).block_elements * sizeof(float), kQuantizePiece * sizeof(float)) {}

void QuantizeSink::weigh(std::span<const float> weights, const Shape& shape) {
  weights_ = weights;
  inputs_ = shape[shape.rank() - 1];
  matrix_elements_ = inputs_ * shape[shape.rank() - 2];
}

// Weights of elements [first, first + count): rows of a matrix have the same.
std::vector<float> QuantizeSink::weights_of(uint64_t first, size_t count) const {
  std::vector<float> weights(weights_.empty() ? 0 : count);
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t matrix = (first + i) / matrix_elements_;
    weights[i] = weights_[matrix * inputs_ + (first + i) % inputs_];
  }
  return weights;
}

Status QuantizeSink::write(ByteSpan bytes) {
  taken_ += bytes.size();
  return units_.add(bytes, [this](ByteSpan whole) { return convert(whole); });
}

Status QuantizeSink::patch(uint64_t, ByteSpan) {
  return make_error(ErrorCode::kInvalidArgument, "what is being quantised cannot be patched");
}

Status QuantizeSink::finish() {
  return units_.finish([this](ByteSpan rest) -> Status {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": {} values are left over that fill no block of {}", name_,
                                  rest.size() / sizeof(float), dtype_name(to_)));
  });
}

Status QuantizeSink::convert(ByteSpan bytes) {
  const DTypeInfo& type = dtype_info(to_);
  values_.resize(bytes.size() / sizeof(float));
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = std::bit_cast<float>(load_le<uint32_t>(&bytes[i * sizeof(float)]));
  }
  blocks_.resize(values_.size() / type.block_elements * type.block_bytes);
  std::vector<QuantizationError> errors((values_.size() + kQuantizePart - 1) / kQuantizePart);
  BALLAST_CHECK(parallel_for(errors.size(), threads_, [&](size_t i) {
    const size_t begin = i * kQuantizePart;
    const size_t count = std::min(kQuantizePart, values_.size() - begin);
    const size_t at = begin / type.block_elements * type.block_bytes;
    const size_t size = count / type.block_elements * type.block_bytes;
    return convert_part(std::span(values_).subspan(begin, count), elements_ + begin,
                        MutableByteSpan(blocks_).subspan(at, size), errors[i]);
  }));
  for (const QuantizationError& error : errors) error_.merge(error);
  elements_ += values_.size();
  return out_.write(blocks_);
}

// Whatever cannot be written is noticed here: infinite scales would be read as infinities or NaN by everyone.
Status QuantizeSink::convert_part(std::span<const float> values, uint64_t first, MutableByteSpan blocks,
                                  QuantizationError& error) {
  if (const auto bad = first_non_finite(values)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": element {} is {}, and only finite values can be quantised", name_,
                                  first + *bad, values[*bad]));
  }
  quantize_blocks(to_, values, blocks, weights_of(first, values.size()));
  std::vector<float> made(values.size());
  dequantize_blocks(to_, blocks, made);
  if (const auto bad = first_non_finite(made)) {
    const size_t block = *bad / dtype_info(to_).block_elements * dtype_info(to_).block_elements;
    const auto in_block = values.subspan(block, dtype_info(to_).block_elements);
    const auto largest = std::ranges::max_element(in_block, {}, [](float value) { return std::abs(value); });
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("tensor \"{}\": element {} is {}, too large for the half-precision scales of {}", name_,
                    first + block + static_cast<size_t>(largest - in_block.begin()), *largest, dtype_name(to_)));
  }
  error = error_between(values, made);
  return {};
}

}  // namespace ballast
