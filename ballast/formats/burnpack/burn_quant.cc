#include "ballast/formats/burnpack/burn_quant.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "ballast/base/checked.h"
#include "ballast/formats/burnpack/burn_quant_words.h"

namespace ballast {

namespace {

uint64_t size_of(ScaleType type) {
  switch (type) {
    case ScaleType::kF32: return 4;
    case ScaleType::kF16:
    case ScaleType::kBF16: return 2;
    case ScaleType::kUE8M0:
    case ScaleType::kUE4M3: return 1;
  }
  return 4;
}

// ---------------------------------------------------------------- text

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes what stands before `separator` (all, if it does not occur) off the front of `text`.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

bool parse_store(std::string_view text, QuantScheme& scheme) {
  const auto store = find_quant_word<QuantStore>(kQuantStoreWords, take_until(text, '='), &QuantWord::text);
  if (!store) return false;
  scheme.store = *store;
  if (*store == QuantStore::kNative) return text.empty();
  const auto axis = parse_number(text);
  scheme.packed_axis = axis.value_or(0);
  return axis.has_value();
}

std::optional<BlockScale> parse_block(std::string_view text) {
  BlockScale block;
  std::string_view sizes = take_until(text, '/');
  const auto type = find_quant_word<ScaleType>(kScaleTypeWords, text, &QuantWord::text);
  if (!type) return std::nullopt;
  block.type = *type;
  while (!sizes.empty()) {
    const auto size = parse_number(take_until(sizes, 'x'));
    if (!size || *size == 0 || *size > UINT8_MAX || block.rank == BlockScale::kMaxRank) return std::nullopt;
    block.sizes[block.rank++] = static_cast<uint8_t>(*size);
  }
  if (block.rank == 0) return std::nullopt;
  return block;
}

// ---------------------------------------------------------------- length

uint64_t divide_up(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

// Product of ceil(dim / block), the block's sizes standing at the last dimensions.
std::optional<uint64_t> count_blocks(const BlockScale& block, const Shape& shape) {
  const size_t rank = shape.rank();
  for (size_t i = 0; i + rank < block.rank; ++i) {
    if (block.sizes[i] != 1) return std::nullopt;
  }
  std::optional<uint64_t> count = 1;
  for (size_t axis = 0; axis < rank && count; ++axis) {
    const size_t from_end = rank - axis;
    const uint64_t size = from_end <= block.rank ? block.sizes[block.rank - from_end] : 1;
    count = checked_mul(*count, divide_up(shape[axis], size));
  }
  return count;
}

// Words of `per_word` values each.
std::optional<uint64_t> count_words_by_line(const QuantScheme& scheme, const Shape& shape, uint64_t per_word) {
  if (scheme.packed_axis >= shape.rank()) return std::nullopt;
  const size_t packed = shape.rank() - 1 - static_cast<size_t>(scheme.packed_axis);
  std::optional<uint64_t> count = 1;
  for (size_t axis = 0; axis < shape.rank() && count; ++axis) {
    count = checked_mul(*count, axis == packed ? divide_up(shape[axis], per_word) : shape[axis]);
  }
  return count;
}

std::optional<uint64_t> scale_bytes(const QuantScheme& scheme, const Shape& shape) {
  uint64_t bytes = scheme.tensor ? size_of(*scheme.tensor) : 0;
  if (!scheme.block) return bytes;
  const auto blocks = count_blocks(*scheme.block, shape);
  const auto block_bytes = blocks ? checked_mul(*blocks, size_of(scheme.block->type)) : std::nullopt;
  return block_bytes ? checked_add(bytes, *block_bytes) : std::nullopt;
}

}  // namespace

std::string quant_scheme_text(const QuantScheme& scheme) {
  std::string text = fmt::format("{}:{}", quant_word(kQuantValueWords, scheme.value).text,
                                 quant_word(kQuantStoreWords, scheme.store).text);
  if (scheme.store != QuantStore::kNative) text += fmt::format("={}", scheme.packed_axis);
  text += fmt::format(":{}", quant_word(kQuantModeWords, scheme.mode).text);
  if (scheme.block) {
    const std::span sizes(scheme.block->sizes.data(), scheme.block->rank);
    text += fmt::format(":block={}/{}", fmt::join(sizes, "x"), quant_word(kScaleTypeWords, scheme.block->type).text);
  }
  if (scheme.tensor) text += fmt::format(":tensor={}", quant_word(kScaleTypeWords, *scheme.tensor).text);
  return text;
}

std::optional<QuantScheme> parse_quant_scheme(std::string_view text) {
  const std::string_view whole = text;
  QuantScheme scheme;
  const auto value = find_quant_word<QuantValue>(kQuantValueWords, take_until(text, ':'), &QuantWord::text);
  if (!value || !parse_store(take_until(text, ':'), scheme)) return std::nullopt;
  const auto mode = find_quant_word<QuantMode>(kQuantModeWords, take_until(text, ':'), &QuantWord::text);
  if (!mode) return std::nullopt;
  scheme.value = *value;
  scheme.mode = *mode;
  while (!text.empty()) {
    std::string_view level = take_until(text, ':');
    const std::string_view key = take_until(level, '=');
    if (key == "block") scheme.block = parse_block(level);
    else if (key == "tensor") scheme.tensor = find_quant_word<ScaleType>(kScaleTypeWords, level, &QuantWord::text);
  }
  // There is one text per scheme, so anything missed above shows here.
  if ((!scheme.block && !scheme.tensor) || quant_scheme_text(scheme) != whole) return std::nullopt;
  return scheme;
}

unsigned quant_value_bits(QuantValue value) {
  switch (value) {
    case QuantValue::kQ8F:
    case QuantValue::kE5M2:
    case QuantValue::kE4M3:
    case QuantValue::kQ8S: return 8;
    case QuantValue::kQ4F:
    case QuantValue::kE2M1:
    case QuantValue::kQ4S: return 4;
    case QuantValue::kQ2F:
    case QuantValue::kQ2S: return 2;
  }
  return 8;
}

std::optional<QuantLength> quant_length(const QuantScheme& scheme, const Shape& shape) {
  const auto values = shape.element_count();
  const auto scales = scale_bytes(scheme, shape);
  if (!values || !scales) return std::nullopt;
  const auto with_scales = [&](std::optional<uint64_t> words, uint64_t word_size) -> std::optional<uint64_t> {
    const auto bytes = words ? checked_mul(*words, word_size) : std::nullopt;
    return bytes ? checked_add(*bytes, *scales) : std::nullopt;
  };
  if (scheme.store == QuantStore::kNative) {
    const auto total = with_scales(values, 1);
    if (!total) return std::nullopt;
    return QuantLength{*total, *total};
  }
  const uint64_t word_size = scheme.store == QuantStore::kPackedU32 ? 4 : 1;
  const uint64_t per_word = word_size * 8 / quant_value_bits(scheme.value);
  const auto by_line = with_scales(count_words_by_line(scheme, shape, per_word), word_size);
  const auto flat = with_scales(divide_up(*values, per_word), word_size);
  if (!by_line || !flat) return std::nullopt;
  return QuantLength{*by_line, *flat};
}

}  // namespace ballast
