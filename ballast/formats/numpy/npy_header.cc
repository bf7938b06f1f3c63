// The header of an NPY file: read, checked, and written as NumPy writes it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/numpy/npy.h"
#include "ballast/formats/numpy/npy_type.h"

namespace ballast {

namespace {

constexpr uint64_t kUsualHeader = 128;  // what NumPy writes for nearly every array
constexpr size_t kVersionEnd = 8;       // magic and version
constexpr size_t kNpyAlignment = 64;    // NumPy lets the payload begin at a multiple of this
// NumPy leaves room for the growing axis to be rewritten in place with this many digits.
constexpr size_t kGrowthDigits = 21;

struct Version {
  uint8_t major = 1;
  uint8_t minor = 0;

  bool is_known() const { return major >= 1 && major <= 3 && minor == 0; }
  size_t length_field() const { return major == 1 ? 2 : 4; }
  size_t text_offset() const { return kVersionEnd + length_field(); }
  bool is_utf8() const { return major >= 3; }
};

Version version_of(ByteSpan header) {
  return {std::to_integer<uint8_t>(header[6]), std::to_integer<uint8_t>(header[7])};
}

// Versions 1 and 2 are Latin-1, version 3 is UTF-8.
std::optional<std::string> decode_header(ByteSpan bytes, Version version) {
  const std::string_view stored = as_text(bytes);
  if (is_ascii(stored)) return std::string(stored);
  if (version.is_utf8()) return is_valid_utf8(stored) ? std::optional<std::string>(stored) : std::nullopt;
  std::string text;
  text.reserve(stored.size());
  for (const char c : stored) append_utf8(text, static_cast<unsigned char>(c));
  return text;
}

std::optional<std::string> encode_header(std::string_view text, Version version) {
  if (version.is_utf8() || is_ascii(text)) return std::string(text);
  std::string stored;
  for (size_t at = 0; at < text.size();) {
    const auto code_point = take_code_point(text, at);
    if (!code_point || *code_point > 0xFF) return std::nullopt;
    stored.push_back(static_cast<char>(*code_point));
  }
  return stored;
}

// The finished header; nullopt where this version cannot hold the text.
std::optional<std::string> wrap_text(std::string_view text, uint64_t padding, Version version) {
  auto stored = encode_header(text, version);
  if (!stored) return std::nullopt;
  stored->append(static_cast<size_t>(padding), ' ');
  stored->push_back('\n');
  if (version.major == 1 && stored->size() > 0xFFFF) return std::nullopt;
  std::string header(kNpyMagic);
  header.push_back(static_cast<char>(version.major));
  header.push_back(static_cast<char>(version.minor));
  if (version.major == 1) append_le<uint16_t>(header, static_cast<uint16_t>(stored->size()));
  else append_le<uint32_t>(header, static_cast<uint32_t>(stored->size()));
  return header + *stored;
}

// The text as NumPy pads it, in the oldest version that holds it.
std::string wrap_as_numpy(const std::string& text) {
  for (const uint8_t major : {1, 2, 3}) {
    const Version version{major, 0};
    const auto stored = encode_header(text, version);
    if (!stored) continue;
    const size_t padding = kNpyAlignment - (version.text_offset() + stored->size() + 1) % kNpyAlignment;
    if (auto header = wrap_text(text, padding, version)) return *header;
  }
  return {};  // not reached: version 3 holds any text
}

std::string shape_literal(const Shape& shape) {
  if (shape.rank() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape.dims(), ", "));
}

std::string canonical_header(std::string_view descr, const Shape& shape) {
  std::string text =
      fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}",
                  descr.starts_with('[') ? std::string(descr) : python_quoted(descr), shape_literal(shape));
  if (shape.rank() > 0) {
    const size_t digits = std::to_string(shape[0]).size();
    text.append(kGrowthDigits - std::min(kGrowthDigits, digits), ' ');
  }
  return wrap_as_numpy(text);
}

// ---------------------------------------------------------------- reading

struct Fields {
  NpyType type;
  bool fortran_order = false;
  std::vector<uint64_t> shape;
};

Result<Fields> parse_dictionary(std::string_view text, const std::string& where) {
  LiteralReader literal(text, where);
  Fields fields;
  bool seen_descr = false, seen_order = false, seen_shape = false;
  BALLAST_CHECK(literal.expect('{'));
  bool comma = true;
  while (!literal.take('}')) {
    if (!comma) return literal.error_here("expected ',' or '}'");
    BALLAST_TRY(const std::string key, literal.read_string());
    bool* seen = key == "descr"           ? &seen_descr
                 : key == "fortran_order" ? &seen_order
                 : key == "shape"         ? &seen_shape
                                          : nullptr;
    if (seen == nullptr || *seen) {
      return literal.error_here(
          fmt::format("key {} {}", python_quoted(key), seen == nullptr ? "is unknown" : "stands twice"));
    }
    *seen = true;
    BALLAST_CHECK(literal.expect(':'));
    if (seen == &seen_descr) {
      BALLAST_TRY(fields.type, read_descr(literal, where));
    } else if (seen == &seen_order) {
      BALLAST_TRY(fields.fortran_order, literal.read_bool());
    } else {
      BALLAST_TRY(fields.shape, read_shape_literal(literal));
    }
    comma = literal.take(',');
  }
  if (!seen_descr || !seen_order || !seen_shape) {
    return literal.error_here("descr, fortran_order and shape must all be there");
  }
  if (!literal.at_end()) return literal.error_here("something follows the dictionary");
  return fields;
}

// "1.0+21 {...}": version, spaces before the newline, text without them. Empty where the header does not end so.
std::string make_spelling(std::string_view text, Version version) {
  if (!text.ends_with('\n')) return {};
  text.remove_suffix(1);
  const size_t end = text.find_last_not_of(' ') + 1;
  return fmt::format("{}.{}+{} {}", version.major, version.minor, text.size() - end, text.substr(0, end));
}

// A header that stands wholly in `bytes`.
Result<NpyHeader> parse_header(ByteSpan bytes, const std::string& where) {
  const Version version = version_of(bytes);
  const auto text = decode_header(bytes.subspan(version.text_offset()), version);
  if (!text) return make_error(ErrorCode::kCorrupt, fmt::format("{}: the NPY header is not UTF-8", where));
  BALLAST_TRY(Fields fields, parse_dictionary(*text, where));
  NpyHeader header;
  header.type = std::move(fields.type);
  header.shape = Shape(fields.shape);
  header.fortran_order = fields.fortran_order && header.shape.rank() > 1;
  header.length = static_cast<uint32_t>(bytes.size());
  header.version = fmt::format("{}.{}", version.major, version.minor);
  const auto elements = header.shape.element_count();
  const auto payload = elements ? checked_mul(*elements, header.type.item_size) : std::nullopt;
  if (!payload) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: shape {} with items of {} bytes exceeds 2^64 bytes", where,
                                                       header.shape.to_string(), header.type.item_size));
  }
  header.payload_size = *payload;
  const auto descr = npy_descr(npy_tensor("", header));
  header.is_canonical = descr && as_text(bytes) == canonical_header(*descr, header.shape);
  if (!header.is_canonical) header.spelling = make_spelling(*text, version);
  return header;
}

Error size_mismatch(const NpyHeader& header, uint64_t size, const std::string& where) {
  const uint64_t room = size - header.length;
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: shape {} with items of {} bytes needs {} bytes behind the NPY header, but {} are "
                                "there; {}",
                                where, header.shape.to_string(), header.type.item_size, header.payload_size, room,
                                room < header.payload_size ? "it was probably cut short" : "something was appended"));
}

}  // namespace

Result<NpyHeader> read_npy_header(const NpyPrefixReader& read_prefix, uint64_t size, uint32_t max_header,
                                  const std::string& where) {
  BALLAST_TRY(BytesOrView start, read_prefix(std::min(size, kUsualHeader)));
  if (!as_text(start.bytes()).starts_with(kNpyMagic)) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: it does not begin with the NPY magic bytes", where));
  }
  const Version version = start.bytes().size() >= kVersionEnd ? version_of(start.bytes()) : Version{};
  if (!version.is_known()) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: NPY version {}.{} is not known (1.0, 2.0 and 3.0 are)",
                                                           where, version.major, version.minor));
  }
  const size_t text_offset = version.text_offset();
  if (start.bytes().size() < text_offset) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} bytes are too few for an NPY header", where, size));
  }
  const std::byte* length_field = start.bytes().data() + kVersionEnd;
  const uint64_t text_length = version.major == 1 ? load_le<uint16_t>(length_field) : load_le<uint32_t>(length_field);
  if (text_length > size - text_offset) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: the NPY header claims {} bytes but only {} follow", where,
                                                       text_length, size - text_offset));
  }
  if (text_length > max_header) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: an NPY header of {} bytes; at most {} are read", where,
                                                           text_length, max_header));
  }
  const uint64_t length = text_offset + text_length;
  if (length > start.bytes().size()) {
    BALLAST_TRY(start, read_prefix(length));
  }
  BALLAST_TRY(NpyHeader header, parse_header(start.bytes().first(static_cast<size_t>(length)), where));
  if (size - length != header.payload_size) return size_mismatch(header, size, where);
  return header;
}

TensorInfo npy_tensor(std::string name, const NpyHeader& header) {
  TensorInfo tensor;
  tensor.name = std::move(name);
  tensor.dtype = header.type.dtype;
  tensor.shape = header.shape;
  tensor.byte_size = header.payload_size;
  if (tensor.dtype == DType::kOpaque) tensor.set_scheme(header.type.descr);
  return tensor;
}

// ---------------------------------------------------------------- writing

std::string npy_spelling(std::string_view header) {
  const Version version = version_of(as_bytes(header));
  const auto text = decode_header(as_bytes(header).subspan(version.text_offset()), version);
  return text ? make_spelling(*text, version) : std::string();
}

Result<std::string> npy_header_bytes(std::string_view spelling) {
  const Error unusable = make_error(ErrorCode::kInvalidArgument, "not the spelling of an NPY header");
  constexpr size_t kVersionText = 4;  // "1.0+"
  if (spelling.size() < kVersionText || spelling[1] != '.' || spelling[3] != '+') return unusable;
  const Version version{static_cast<uint8_t>(spelling[0] - '0'), static_cast<uint8_t>(spelling[2] - '0')};
  uint32_t padding = 0;
  const char* begin = spelling.data() + kVersionText;
  const char* limit = spelling.data() + spelling.size();
  const auto [end, failure] = std::from_chars(begin, limit, padding);
  if (!version.is_known() || failure != std::errc() || end == limit || *end != ' ' || padding > kMaxNpyHeader) {
    return unusable;
  }
  auto header = wrap_text(std::string_view(end + 1, static_cast<size_t>(limit - end - 1)), padding, version);
  if (!header) return unusable;
  return *std::move(header);
}

Result<NpyHeader> parse_npy_spelling(std::string_view spelling) {
  BALLAST_TRY(const std::string bytes, npy_header_bytes(spelling));
  return parse_header(as_bytes(bytes), "stored form");
}

Result<NpyLayout> npy_layout(const TensorInfo& tensor, std::string_view spelling) {
  const auto descr = npy_descr(tensor);
  if (!descr) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": NPY has no word for dtype {}", tensor.name, tensor.type_name()));
  }
  if (!spelling.empty()) {
    const auto spelled = parse_npy_spelling(spelling);
    if (spelled && spelled->type.dtype == tensor.dtype && spelled->shape == tensor.shape &&
        spelled->payload_size == tensor.byte_size &&
        (tensor.dtype != DType::kOpaque || spelled->type.descr == tensor.scheme())) {
      BALLAST_TRY(std::string header, npy_header_bytes(spelling));
      return NpyLayout{std::move(header), {spelled->type.big_endian, spelled->fortran_order}};
    }
  }
  return NpyLayout{canonical_header(*descr, tensor.shape), {}};
}

void find_npy_type_losses(const Description& description, std::string_view format, std::vector<Loss>& losses) {
  const auto supports = [](DType dtype) {
    TensorInfo probe;
    probe.dtype = dtype;
    return npy_descr(probe).has_value();
  };
  for (const TensorInfo& tensor : description.tensors) {
    if (!npy_descr(tensor)) losses.push_back(unsupported_dtype_loss(tensor, format, supports));
  }
}

}  // namespace ballast
