// GGUF's scalar metadata, and how a file spelled what could be spelled in several ways.
#include <bit>
#include <limits>

#include "ballast/base/utf8.h"
#include "ballast/formats/gguf/gguf.h"

namespace ballast {

namespace {

// Widening by hand: the processor would make a signalling NaN quiet.
double widened(uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  if (value == value) return value;
  const uint64_t sign = static_cast<uint64_t>(bits >> 31) << 63;
  return std::bit_cast<double>(sign | uint64_t{0x7FF} << 52 | static_cast<uint64_t>(bits & 0x7FFFFF) << 29);
}

bool fits_f32(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  if (value != value) return (bits & 0x1FFFFFFF) == 0;  // a NaN whose payload is short enough
  if (value > std::numeric_limits<float>::max() || value < std::numeric_limits<float>::lowest()) {
    return (bits & 0xFFFFFFFFFFFFF) == 0 && (bits >> 52 & 0x7FF) == 0x7FF;  // an infinity
  }
  return static_cast<double>(static_cast<float>(value)) == value;
}

// Of what fits_f32.
uint32_t narrowed(double value) {
  if (value == value) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto bits = std::bit_cast<uint64_t>(value);
  return static_cast<uint32_t>(bits >> 63) << 31 | 0x7F800000U | static_cast<uint32_t>(bits >> 29 & 0x7FFFFF);
}

template <typename T, typename V>
bool fits(V value) {
  return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
}

bool holds_natural(MetaType type, uint64_t value) {
  switch (type) {
    case MetaType::kU8: return value <= UINT8_MAX;
    case MetaType::kU16: return value <= UINT16_MAX;
    case MetaType::kU32: return value <= UINT32_MAX;
    default: return type == MetaType::kU64;
  }
}

bool holds_integer(MetaType type, int64_t value) {
  switch (type) {
    case MetaType::kI8: return fits<int8_t>(value);
    case MetaType::kI16: return fits<int16_t>(value);
    case MetaType::kI32: return fits<int32_t>(value);
    default: return type == MetaType::kI64;
  }
}

// ---------------------------------------------------------------- the text of a stored form

constexpr std::string_view kBigEndianLine = "big_endian";
constexpr std::string_view kBareLine = "tail=bare";
constexpr std::string_view kPaddedLine = "tail=padded";
constexpr std::string_view kTypeWord = "type.";      // type.u8=the.key
constexpr std::string_view kHexTypeWord = "xtype.";  // the same for keys that are no line of UTF-8

bool is_line(std::string_view key) { return is_valid_utf8(key) && key.find('\n') == std::string_view::npos; }

void read_type_line(std::string_view word, std::string_view key, GgufForm& form) {
  const bool hex = word.starts_with(kHexTypeWord);
  if (!hex && !word.starts_with(kTypeWord)) return;
  const auto type = parse_meta_type(word.substr(hex ? kHexTypeWord.size() : kTypeWord.size()));
  if (!type) return;
  if (!hex) {
    form.types.emplace(key, *type);
  } else if (const auto bytes = parse_hex(key)) {
    form.types.emplace(as_text(*bytes), *type);
  }
}

}  // namespace

MetaValue gguf_value(MetaType type, uint64_t bits) {
  switch (type) {
    case MetaType::kI8: return int64_t{static_cast<int8_t>(bits)};
    case MetaType::kI16: return int64_t{static_cast<int16_t>(bits)};
    case MetaType::kI32: return int64_t{static_cast<int32_t>(bits)};
    case MetaType::kI64: return static_cast<int64_t>(bits);
    case MetaType::kF32: return widened(static_cast<uint32_t>(bits));
    case MetaType::kF64: return std::bit_cast<double>(bits);
    case MetaType::kBool: return bits != 0;
    default: return bits;
  }
}

uint64_t gguf_bits(MetaType type, const MetaValue& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) return *natural;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<uint64_t>(*integer);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  const auto* real = std::get_if<double>(&value);
  if (real == nullptr) return 0;
  return type == MetaType::kF32 ? narrowed(*real) : std::bit_cast<uint64_t>(*real);
}

MetaType default_gguf_type(const MetaValue& value) {
  if (std::holds_alternative<std::string>(value)) return MetaType::kText;
  if (std::holds_alternative<MetaArray>(value)) return MetaType::kArray;
  if (std::holds_alternative<bool>(value)) return MetaType::kBool;
  if (const auto* natural = std::get_if<uint64_t>(&value)) {
    return holds_natural(MetaType::kU32, *natural) ? MetaType::kU32 : MetaType::kU64;
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return holds_integer(MetaType::kI32, *integer) ? MetaType::kI32 : MetaType::kI64;
  }
  return fits_f32(std::get<double>(value)) ? MetaType::kF32 : MetaType::kF64;
}

bool holds_exactly(MetaType type, const MetaValue& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) return holds_natural(type, *natural);
  if (const auto* integer = std::get_if<int64_t>(&value)) return holds_integer(type, *integer);
  if (const auto* real = std::get_if<double>(&value)) {
    return type == MetaType::kF64 || (type == MetaType::kF32 && fits_f32(*real));
  }
  return type == default_gguf_type(value);
}

GgufForm GgufForm::from_text(std::string_view text) {
  GgufForm form;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t equals = line.find('=');
    if (line == kBigEndianLine) form.order = ByteOrder::kBig;
    else if (line == kBareLine) form.tail = Tail::kBare;
    else if (line == kPaddedLine) form.tail = Tail::kPadded;
    else if (equals != std::string_view::npos) read_type_line(line.substr(0, equals), line.substr(equals + 1), form);
  }
  return form;
}

std::string GgufForm::to_text() const {
  std::string text;
  const auto add_line = [&text](std::string_view line) {
    if (!text.empty()) text += '\n';
    text += line;
  };
  if (order == ByteOrder::kBig) add_line(kBigEndianLine);
  if (tail == Tail::kBare) add_line(kBareLine);
  if (tail == Tail::kPadded) add_line(kPaddedLine);
  for (const auto& [key, type] : types) {
    add_line(is_line(key) ? kTypeWord : kHexTypeWord);
    text += meta_type_name(type);
    text += '=';
    text += is_line(key) ? key : to_hex(as_bytes(key));
  }
  return text;
}

}  // namespace ballast
