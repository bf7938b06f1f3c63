#include "ballast/formats/numpy/npy_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"

namespace ballast {

// ---------------------------------------------------------------- literals

Error LiteralReader::error_here(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: NPY header, character {}: {}", where_, position_, what));
}

void LiteralReader::skip_space() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
}

bool LiteralReader::next_is(char c) {
  skip_space();
  return position_ < text_.size() && text_[position_] == c;
}

bool LiteralReader::take(char c) {
  if (!next_is(c)) return false;
  ++position_;
  return true;
}

bool LiteralReader::at_end() {
  skip_space();
  return position_ == text_.size();
}

Status LiteralReader::expect(char c) {
  if (take(c)) return {};
  return error_here(fmt::format("expected '{}'", c));
}

Result<uint32_t> LiteralReader::read_hex(size_t digits) {
  uint32_t value = 0;
  const std::string_view token = text_.substr(position_, digits);
  const auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), value, 16);
  if (token.size() != digits || failure != std::errc() || end != token.data() + digits) {
    return error_here("an escape without its hexadecimal digits");
  }
  position_ += digits;
  return value;
}

Status LiteralReader::read_escape(std::string& out) {
  if (position_ >= text_.size()) return error_here("the text ends inside a string");
  const char c = text_[position_++];
  switch (c) {
    case '\\':
    case '\'':
    case '"': out.push_back(c); return {};
    case 'n': out.push_back('\n'); return {};
    case 'r': out.push_back('\r'); return {};
    case 't': out.push_back('\t'); return {};
    case 'x':
    case 'u':
    case 'U': break;
    default: return error_here("an unknown escape in a string");
  }
  BALLAST_TRY(const uint32_t code_point, read_hex(c == 'x' ? 2 : c == 'u' ? 4 : 8));
  if (!is_code_point(code_point)) return error_here("an escape that is no character");
  append_utf8(out, code_point);
  return {};
}

Result<std::string> LiteralReader::read_string() {
  if (!next_is('\'') && !next_is('"')) return error_here("expected a string");
  const char quote = text_[position_++];
  std::string out;
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    if (c == quote) return out;
    if (c == '\n') break;
    if (c == '\\') BALLAST_CHECK(read_escape(out));
    else out.push_back(c);
  }
  return error_here("a string without an end");
}

Result<uint64_t> LiteralReader::read_integer() {
  skip_space();
  uint64_t value = 0;
  const char* begin = text_.data() + position_;
  const char* limit = text_.data() + text_.size();
  const auto [end, failure] = std::from_chars(begin, limit, value);
  if (failure == std::errc::result_out_of_range) return error_here("a number above 2^64");
  if (failure != std::errc()) return error_here("expected a whole number that is not negative");
  if (*begin == '0' && end - begin > 1) return error_here("a number with a leading zero");
  position_ += static_cast<size_t>(end - begin);
  // Python 2 marked long integers.
  if (position_ < text_.size() && text_[position_] == 'L') ++position_;
  return value;
}

Result<bool> LiteralReader::read_bool() {
  skip_space();
  for (const bool value : {true, false}) {
    const std::string_view word = value ? "True" : "False";
    if (text_.substr(position_, word.size()) != word) continue;
    position_ += word.size();
    return value;
  }
  return error_here("expected True or False");
}

Result<std::vector<uint64_t>> read_shape_literal(LiteralReader& literal) {
  std::vector<uint64_t> dims;
  BALLAST_CHECK(literal.expect('('));
  bool comma = true;
  while (!literal.take(')')) {
    if (!comma) return literal.error_here("expected ',' or ')' in a shape");
    BALLAST_TRY(const uint64_t dim, literal.read_integer());
    dims.push_back(dim);
    comma = literal.take(',');
  }
  // (3) is a number in parentheses, not a tuple.
  if (dims.size() == 1 && !comma) return literal.error_here("a shape of one dimension needs a comma: (3,)");
  return dims;
}

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') out += {'\\', c};
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (byte < 0x20 || byte == 0x7F) out += fmt::format("\\x{:02x}", byte);
    else out.push_back(c);
  }
  out.push_back(quote);
  return out;
}

// ---------------------------------------------------------------- types

namespace {

struct NumericType {
  char kind;
  uint64_t item_size;
  DType dtype;
};
constexpr std::array kNumericTypes = {
    NumericType{'f', 2, DType::kF16},   NumericType{'f', 4, DType::kF32}, NumericType{'f', 8, DType::kF64},
    NumericType{'f', 16, DType::kF128}, NumericType{'c', 8, DType::kC64}, NumericType{'c', 16, DType::kC128},
    NumericType{'c', 32, DType::kC256}, NumericType{'i', 1, DType::kI8},  NumericType{'i', 2, DType::kI16},
    NumericType{'i', 4, DType::kI32},   NumericType{'i', 8, DType::kI64}, NumericType{'u', 1, DType::kU8},
    NumericType{'u', 2, DType::kU16},   NumericType{'u', 4, DType::kU32}, NumericType{'u', 8, DType::kU64},
    NumericType{'b', 1, DType::kBool},
};

// Long doubles of 32-bit x86, which have no dtype of ours, and everything that is no number.
bool is_opaque_kind(char kind, uint64_t count) {
  switch (kind) {
    case 'S':
    case 'U':
    case 'V': return true;
    case 'M':
    case 'm': return count == 8;
    case 'f': return count == 12;
    case 'c': return count == 24;
    default: return false;
  }
}

bool is_time_unit(std::string_view text) {
  return text.size() > 2 && text.front() == '[' && text.back() == ']' &&
         std::ranges::all_of(text.substr(1, text.size() - 2), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
         });
}

Error unknown_descr(std::string_view text, const std::string& where) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: dtype {} is not one that NumPy writes", where, python_quoted(text)));
}

Error object_descr(const std::string& where) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: it holds Python objects, stored as a pickle, and loading a pickle runs whatever "
                                "code it contains; save it again with a numeric dtype",
                                where));
}

// `<f4`, `|S10`, `>M8[ns]`.
Result<NpyType> parse_simple_descr(std::string_view text, const std::string& where) {
  std::string_view rest = text;
  char order = '<';
  if (!rest.empty() && std::string_view("<>=|").find(rest.front()) != std::string_view::npos) {
    order = rest.front() == '>' ? '>' : '<';
    rest.remove_prefix(1);
  }
  if (rest.empty()) return unknown_descr(text, where);
  const char kind = rest.front();
  rest.remove_prefix(1);
  if (kind == 'O') return object_descr(where);
  uint64_t count = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  if (failure != std::errc()) return unknown_descr(text, where);
  const std::string_view unit = rest.substr(static_cast<size_t>(end - rest.data()));
  const bool is_time = kind == 'M' || kind == 'm';
  if (!unit.empty() && !(is_time && is_time_unit(unit))) return unknown_descr(text, where);

  const auto numeric = std::ranges::find_if(
      kNumericTypes, [&](const NumericType& row) { return row.kind == kind && row.item_size == count; });
  if (numeric == kNumericTypes.end() && !is_opaque_kind(kind, count)) return unknown_descr(text, where);
  const auto item_size = checked_mul(count, kind == 'U' ? 4 : 1);
  if (!item_size || *item_size == 0) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: dtype {} has items of {} bytes", where,
                                                           python_quoted(text), item_size ? "0" : "more than 2^64"));
  }
  const bool is_bytes = *item_size == 1 || kind == 'S' || kind == 'V';
  NpyType type;
  type.item_size = *item_size;
  if (numeric != kNumericTypes.end()) {
    type.dtype = numeric->dtype;
    type.big_endian = order == '>' && !is_bytes;
  }
  type.descr = fmt::format("{}{}{}{}", is_bytes ? '|' : order, kind, count, unit);
  return type;
}

// Fields of records may be records again; nobody nests them deeply.
constexpr int kMaxRecordDepth = 16;

class RecordReader {
 public:
  RecordReader(LiteralReader& literal, const std::string& where) : literal_(literal), where_(where) {}

  // A string or a list of fields.
  Result<NpyType> read(int depth) {
    if (!literal_.next_is('[')) {
      BALLAST_TRY(const std::string text, literal_.read_string());
      return parse_simple_descr(text, where_);
    }
    if (depth == kMaxRecordDepth) return literal_.error_here("records are nested too deeply");
    BALLAST_CHECK(literal_.expect('['));
    NpyType record;
    record.descr = "[";
    bool comma = true;
    while (!literal_.take(']')) {
      if (!comma) return literal_.error_here("expected ',' or ']' in a list of fields");
      if (record.descr.size() > 1) record.descr += ", ";
      BALLAST_CHECK(read_field(record, depth));
      comma = literal_.take(',');
    }
    record.descr += "]";
    if (record.item_size == 0) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{}: its records have 0 bytes", where_));
    }
    return record;
  }

 private:
  // ('name', '<f4'), ('name', '<f4', (2,)), (('title', 'name'), [...])
  Status read_field(NpyType& record, int depth) {
    BALLAST_CHECK(literal_.expect('('));
    std::string text;
    if (literal_.take('(')) {
      BALLAST_TRY(const std::string title, literal_.read_string());
      BALLAST_CHECK(literal_.expect(','));
      BALLAST_TRY(const std::string name, literal_.read_string());
      BALLAST_CHECK(literal_.expect(')'));
      text = fmt::format("(({}, {})", python_quoted(title), python_quoted(name));
    } else {
      BALLAST_TRY(const std::string name, literal_.read_string());
      text = fmt::format("({}", python_quoted(name));
    }
    BALLAST_CHECK(literal_.expect(','));
    BALLAST_TRY(const NpyType field, read(depth + 1));
    text += ", ";
    text += field.descr.starts_with('[') ? field.descr : python_quoted(field.descr);
    uint64_t count = 1;
    if (literal_.take(',') && !literal_.next_is(')')) {
      BALLAST_TRY(const auto dims, read_shape_literal(literal_));
      const Shape shape(dims);
      const auto elements = shape.element_count();
      if (!elements) return literal_.error_here("a field of more than 2^64 elements");
      count = *elements;
      text += dims.size() == 1 ? fmt::format(", ({},)", dims[0]) : fmt::format(", ({})", fmt::join(dims, ", "));
    }
    BALLAST_CHECK(literal_.expect(')'));
    const auto bytes = checked_mul(field.item_size, count);
    const auto total = bytes ? checked_add(record.item_size, *bytes) : std::nullopt;
    if (!total) return literal_.error_here("a record of more than 2^64 bytes");
    record.item_size = *total;
    record.descr += text + ")";
    return {};
  }

  LiteralReader& literal_;
  const std::string& where_;
};

}  // namespace

Result<NpyType> read_descr(LiteralReader& literal, const std::string& where) {
  return RecordReader(literal, where).read(0);
}

std::optional<std::string> npy_descr(const TensorInfo& tensor) {
  if (tensor.dtype != DType::kOpaque) {
    const auto row = std::ranges::find(kNumericTypes, tensor.dtype, &NumericType::dtype);
    if (row == kNumericTypes.end()) return std::nullopt;
    return fmt::format("{}{}{}", row->item_size == 1 ? '|' : '<', row->kind, row->item_size);
  }
  const std::string where;
  const bool is_record = tensor.scheme().starts_with('[');
  LiteralReader literal(tensor.scheme(), where);
  const auto type = is_record ? read_descr(literal, where) : parse_simple_descr(tensor.scheme(), where);
  if (!type || type->dtype != DType::kOpaque || type->descr != tensor.scheme()) return std::nullopt;
  const auto elements = tensor.shape.element_count();
  const auto bytes = elements ? checked_mul(*elements, type->item_size) : std::nullopt;
  if (bytes != tensor.byte_size) return std::nullopt;
  return type->descr;
}

}  // namespace ballast
