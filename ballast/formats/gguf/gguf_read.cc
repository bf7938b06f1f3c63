#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"

namespace ballast {

namespace {

// The least that a pair and a row of the table take: what bounds the counts in the head.
constexpr uint64_t kShortestPair = 8 + 4 + 1;
constexpr uint64_t kShortestRow = 8 + 4 + 4 + 8;
constexpr size_t kLongestKey = 65'535;  // by the specification

// The front of a file, in memory as far as it was asked for.
class FrontReader {
 public:
  explicit FrontReader(const ByteSource& source) : source_(source) {
    if (const auto all = source.view(0, source.size())) bytes_ = *all;
  }

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return source_.size() - position_; }

  // Valid until the next call.
  Result<ByteSpan> take(uint64_t length, std::string_view what) {
    if (length > remaining()) return cut(length, what);
    if (length > bytes_.size() - position_) BALLAST_CHECK(read_on(position_ + length));
    const ByteSpan taken = bytes_.subspan(static_cast<size_t>(position_), static_cast<size_t>(length));
    position_ += length;
    return taken;
  }

  Result<MetaArray> take_array(MetaType element, uint64_t count, ByteOrder order) {
    for (;;) {
      uint64_t used = 0;
      auto array = MetaArray::take(element, count, bytes_.subspan(static_cast<size_t>(position_)), order, used);
      if (array || bytes_.size() == source_.size()) {
        position_ += used;
        return array;
      }
      BALLAST_CHECK(read_on(bytes_.size() + 1));
    }
  }

 private:
  static constexpr uint64_t kFirstRead = 64 << 10;

  Error cut(uint64_t length, std::string_view what) const {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: byte {}: {} takes {} bytes, but only {} follow; the file was probably cut short",
                                  source_.name(), position_, what, length, remaining()));
  }

  // Twice as much each time, so that the whole costs no more than reading the front twice.
  Status read_on(uint64_t at_least) {
    const uint64_t wanted = std::min(source_.size(), std::max({at_least, kFirstRead, uint64_t{2} * owned_.size()}));
    const size_t known = owned_.size();
    const auto size = checked_size(wanted);
    if (!size) return too_large_for_memory(source_, wanted);
    owned_.resize(*size);
    bytes_ = owned_;
    return source_.read_at(known, MutableByteSpan(owned_).subspan(known));
  }

  const ByteSource& source_;
  ByteSpan bytes_;  // the front, as far as it is known
  ByteVector owned_;
  uint64_t position_ = 0;
};

class GgufParser {
 public:
  GgufParser(const ByteSource& source, Findings& findings) : source_(source), findings_(findings), in_(source) {}

  Status parse() {
    BALLAST_CHECK(parse_head());
    for (uint64_t i = 0; i < pairs_; ++i) BALLAST_CHECK(parse_pair(i));
    BALLAST_CHECK(check_keys());
    table_.tensors.reserve(static_cast<size_t>(rows_));
    table_.places.reserve(static_cast<size_t>(rows_));
    for (uint64_t i = 0; i < rows_; ++i) BALLAST_CHECK(parse_row(i));
    table_.end = in_.position();
    whole_ = true;
    return {};
  }

  // Where the last thing that was understood ends.
  uint64_t position() const { return in_.position(); }
  // Whether all was understood: the data begins behind the table, so that without its end no tensor can be found.
  bool is_whole() const { return whole_; }
  Description& description() { return description_; }
  GgufForm& form() { return form_; }
  GgufTable& table() { return table_; }

 private:
  template <std::unsigned_integral T>
  Result<T> take_number(std::string_view what) {
    BALLAST_TRY(const ByteSpan bytes, in_.take(sizeof(T), what));
    const T value = load_le<T>(bytes.data());
    return form_.order == ByteOrder::kBig ? byte_swapped(value) : value;
  }

  Result<std::string> take_text(std::string_view what) {
    BALLAST_TRY(const auto length, take_number<uint64_t>(what));
    BALLAST_TRY(const ByteSpan bytes, in_.take(length, what));
    return std::string(as_text(bytes));
  }

  Error corrupt(uint64_t at, std::string_view what) const {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: byte {}: {}", source_.name(), at, what));
  }

  // ---- the head

  Status parse_head() {
    BALLAST_TRY(const ByteSpan magic, in_.take(kGgufMagic.size(), "the signature"));
    if (as_text(magic) != kGgufMagic) return corrupt(0, "this is not the signature of a GGUF file");
    BALLAST_TRY(auto version, take_number<uint32_t>("the version"));
    if (version != 0 && (version & 0xFFFF) == 0) {
      form_.order = ByteOrder::kBig;
      version = byte_swapped(version);
      findings_.warning("big_endian", 4, "", [&] {
        return fmt::format("{}: a big-endian file, which llama.cpp reads on big-endian machines only", source_.name());
      });
    }
    BALLAST_CHECK(check_version(version));
    description_.format = kGgufDriver.name;
    description_.version = std::to_string(version);
    BALLAST_TRY(rows_, take_number<uint64_t>("the number of tensors"));
    BALLAST_TRY(pairs_, take_number<uint64_t>("the number of metadata pairs"));
    BALLAST_CHECK(check_count(8, "tensors", rows_, kShortestRow));
    return check_count(16, "metadata pairs", pairs_, kShortestPair);
  }

  Status check_version(uint32_t version) const {
    if (version == 2 || version == 3) return {};
    const std::string_view why = version == 1 ? "files of that age must be converted with an old llama.cpp"
                                 : version == 0 || version > 1000 ? "the file is damaged"
                                                                  : "it may come from a newer llama.cpp";
    return make_error(version == 0 ? ErrorCode::kCorrupt : ErrorCode::kUnsupported,
                      fmt::format("{}: GGUF version {}; this program knows 2 and 3: {}", source_.name(), version, why));
  }

  Status check_count(uint64_t at, std::string_view what, uint64_t count, uint64_t least) const {
    if (count <= in_.remaining() / least) return {};
    return corrupt(at, fmt::format("{} {} are announced, which {} bytes cannot hold", count, what, in_.remaining()));
  }

  // ---- metadata

  Status parse_pair(uint64_t index) {
    const uint64_t at = in_.position();
    BALLAST_TRY(std::string key, take_text("the key of a metadata pair"));
    if (key.empty()) {
      BALLAST_CHECK(
          findings_.error("empty_key", at, "",
                          fmt::format("{}: byte {}: metadata pair {} has an empty key", source_.name(), at, index)));
    }
    if (key.size() > kLongestKey) {
      findings_.warning("long_key", at, "", [&] {
        return fmt::format("{}: a key of {} bytes; the format allows {}", source_.name(), key.size(), kLongestKey);
      });
    }
    BALLAST_TRY(const MetaType type, take_type(key));
    if (key == kGgufAlignmentKey) return parse_alignment(std::move(key), type);
    BALLAST_TRY(MetaValue value, take_value(key, type));
    return add_pair(std::move(key), type, std::move(value));
  }

  Result<MetaType> take_type(const std::string& key) {
    const uint64_t at = in_.position();
    BALLAST_TRY(const auto type, take_number<uint32_t>("the type of a value"));
    if (type < kMetaTypes) return static_cast<MetaType>(type);
    return corrupt(at, fmt::format("metadata \"{}\" has a value of type {}, which does not exist", key, type));
  }

  Result<MetaValue> take_value(const std::string& key, MetaType type) {
    if (type == MetaType::kText) {
      BALLAST_TRY(std::string text, take_text(fmt::format("the text of metadata \"{}\"", key)));
      return MetaValue(std::move(text));
    }
    if (type != MetaType::kArray) return take_scalar(key, type);
    BALLAST_TRY(const MetaType element, take_type(key));
    BALLAST_TRY(const auto count, take_number<uint64_t>(fmt::format("the length of metadata \"{}\"", key)));
    const uint64_t at = in_.position();
    auto array = in_.take_array(element, count, form_.order);
    if (!array) return corrupt(at, fmt::format("metadata \"{}\": {}", key, array.error().message));
    return MetaValue(std::move(*array));
  }

  Result<MetaValue> take_scalar(const std::string& key, MetaType type) {
    const uint64_t at = in_.position();
    const size_t size = meta_type_size(type);
    BALLAST_TRY(const ByteSpan bytes, in_.take(size, fmt::format("the value of metadata \"{}\"", key)));
    uint64_t bits = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t shift = form_.order == ByteOrder::kBig ? size - 1 - i : i;
      bits |= std::to_integer<uint64_t>(bytes[i]) << (8 * shift);
    }
    if (type == MetaType::kBool && bits > 1) {
      findings_.warning("bool", at, "", [&] {
        return fmt::format("{}: metadata \"{}\" is a truth value of {}, which counts as true", source_.name(), key,
                           bits);
      });
    }
    return gguf_value(type, bits);
  }

  Status add_pair(std::string key, MetaType type, MetaValue value) {
    auto* text = std::get_if<std::string>(&value);
    if (key == kOriginKey && text != nullptr && !description_.origin) {
      description_.origin = std::move(*text);
      return {};
    }
    if (type != default_gguf_type(value)) form_.types.emplace(key, type);
    description_.metadata.push_back({std::move(key), std::move(value)});
    return {};
  }

  Status parse_alignment(std::string key, MetaType type) {
    const uint64_t at = in_.position();
    if (type != MetaType::kU32) {
      return corrupt(at, fmt::format("{} must be of type u32, not {}", key, meta_type_name(type)));
    }
    BALLAST_TRY(const auto alignment, take_number<uint32_t>("the alignment"));
    if (!is_gguf_alignment(alignment)) {
      return corrupt(at, fmt::format("{} is {}, neither a multiple of 8 nor a power of two", key, alignment));
    }
    if (!std::has_single_bit(alignment)) {
      findings_.warning("alignment", at, "", [&] {
        return fmt::format("{}: the alignment {} is no power of two: llama.cpp refuses the file", source_.name(),
                           alignment);
      });
    } else if (alignment < 8) {
      findings_.note("alignment", at, "", [&] {
        return fmt::format("{}: the alignment {} is no multiple of 8, as the specification wants it", source_.name(),
                           alignment);
      });
    }
    table_.alignment = alignment;
    description_.metadata.push_back({std::move(key), uint64_t{alignment}});
    return {};
  }

  Status check_keys() {
    std::vector<std::string_view> keys;
    for (const MetaEntry& entry : description_.metadata) keys.push_back(entry.key);
    if (description_.origin) keys.push_back(kOriginKey);
    std::ranges::sort(keys);
    for (auto twin = std::ranges::adjacent_find(keys); twin != keys.end();) {
      BALLAST_CHECK(findings_.error("duplicate_key", in_.position(), "",
                                    fmt::format("{}: metadata key \"{}\" stands twice", source_.name(), *twin)));
      twin = std::adjacent_find(std::next(twin), keys.end());
    }
    return {};
  }

  // ---- the table of tensors

  Status parse_row(uint64_t index) {
    GgufTable::Place row;
    row.table_offset = in_.position();
    TensorInfo info;
    BALLAST_TRY(info.name, take_text(fmt::format("the name of tensor {}", index)));
    BALLAST_CHECK(check_name(info.name, row.table_offset));
    BALLAST_CHECK(parse_shape(info));
    BALLAST_TRY(const auto type, take_number<uint32_t>("the type of a tensor"));
    BALLAST_TRY(row.offset, take_number<uint64_t>("the offset of a tensor"));
    const auto dtype = gguf_dtype(type);
    if (!dtype) return unknown_type(info.name, type);
    info.dtype = *dtype;
    BALLAST_CHECK(find_size(info, row.table_offset));
    table_.tensors.push_back(std::move(info));
    table_.places.push_back(row);
    return {};
  }

  Status check_name(const std::string& name, uint64_t at) {
    if (!is_valid_utf8(name)) {
      BALLAST_CHECK(findings_.error("name", at, name,
                                    fmt::format("{}: byte {}: the name of a tensor is not UTF-8", source_.name(), at)));
    }
    if (name.size() <= kGgufMaxName) return {};
    return findings_.layout_error("name", at, name,
                                  fmt::format("{}: byte {}: the name of a tensor has {} bytes; ggml allows {}: \"{}…\"",
                                              source_.name(), at, name.size(), kGgufMaxName, printable_start(name)));
  }

  static std::string_view printable_start(std::string_view name) {
    size_t end = std::min(name.size(), kGgufMaxName);
    while (end > 0 && end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
    return name.substr(0, end);
  }

  Status parse_shape(TensorInfo& info) {
    const uint64_t at = in_.position();
    BALLAST_TRY(const auto rank, take_number<uint32_t>("the number of dimensions of a tensor"));
    if (rank > kGgufMaxRank) {
      return corrupt(
          at, fmt::format("tensor \"{}\" has {} dimensions; the format allows {}", info.name, rank, kGgufMaxRank));
    }
    uint64_t dims[kGgufMaxRank] = {};
    for (uint32_t i = 0; i < rank; ++i) {
      // Innermost first.
      BALLAST_TRY(dims[rank - 1 - i], take_number<uint64_t>("a dimension of a tensor"));
    }
    info.shape = Shape(std::span<const uint64_t>(dims, rank));
    return {};
  }

  Error unknown_type(const std::string& name, uint32_t type) const {
    const bool removed = type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: tensor \"{}\" has type {}, {}", source_.name(), name, type,
                                  removed ? "which ggml has removed: quantise the model anew"
                                          : "which this version does not know; the file may come from a newer "
                                            "llama.cpp"));
  }

  Status find_size(TensorInfo& info, uint64_t at) {
    const auto elements = info.shape.element_count();
    const auto size = packed_size(info.shape, info.dtype);
    if (size && elements && *elements <= INT64_MAX) {
      info.byte_size = *size;
      return {};
    }
    const DTypeInfo& type = dtype_info(info.dtype);
    const uint64_t row = info.shape.rank() == 0 ? 1 : info.shape[info.shape.rank() - 1];
    if (is_block(info.dtype) && row % type.block_elements != 0) {
      return findings_.error("size", at, info.name,
                             fmt::format("{}: tensor \"{}\" has rows of {} elements, but {} is stored in blocks of {}",
                                         source_.name(), info.name, row, type.name, type.block_elements));
    }
    return findings_.error("size", at, info.name,
                           fmt::format("{}: tensor \"{}\": shape {} of {} exceeds what 64 bits can count",
                                       source_.name(), info.name, info.shape.to_string(), type.name));
  }

  const ByteSource& source_;
  Findings& findings_;
  FrontReader in_;
  uint64_t rows_ = 0;
  uint64_t pairs_ = 0;
  bool whole_ = false;
  Description description_;
  GgufForm form_;
  GgufTable table_;
};

}  // namespace

Result<GgufFile> parse_gguf(const ByteSource& source, Findings& findings) {
  GgufParser parser(source, findings);
  if (Status parsed = parser.parse(); !parsed) {
    BALLAST_CHECK(findings.broken_off(parser.position(), std::move(parsed).error()));
  }
  GgufFile file{std::move(parser.description()), {}, std::move(parser.form())};
  if (parser.is_whole()) BALLAST_CHECK(place_gguf_tensors(source, std::move(parser.table()), findings, file));
  return file;
}

}  // namespace ballast
