#include "ballast/formats/burn_quant.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

// How an enumerator is spelled in files and in our text. Rows stand in the order of the enumerators.
struct Word {
  std::string_view file;
  std::string_view text;
};
constexpr std::array<Word, 9> kValues = {{{"Q8F", "q8f"},
                                          {"E5M2", "e5m2"},
                                          {"E4M3", "e4m3"},
                                          {"Q4F", "q4f"},
                                          {"E2M1", "e2m1"},
                                          {"Q2F", "q2f"},
                                          {"Q8S", "q8s"},
                                          {"Q4S", "q4s"},
                                          {"Q2S", "q2s"}}};
constexpr std::array<Word, 3> kStores = {
    {{"Native", "native"}, {"PackedNative", "packed_native"}, {"PackedU32", "packed_u32"}}};
constexpr std::array<Word, 2> kModes = {{{"Symmetric", "symmetric"}, {"Lookup", "lookup"}}};
constexpr std::array<Word, 5> kScaleTypes = {
    {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}, {"UE8M0", "ue8m0"}, {"UE4M3", "ue4m3"}}};
constexpr std::string_view kOldPackedStore = "U32";  // Burn 0.19: packed along the last axis

template <typename Enum>
const Word& word_of(std::span<const Word> words, Enum value) {
  return words[static_cast<size_t>(value)];
}

template <typename Enum>
std::optional<Enum> find_word(std::span<const Word> words, std::string_view name, std::string_view Word::*column) {
  const auto found = std::ranges::find(words, name, column);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

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

// ---------------------------------------------------------------- reading a spelling

// Pulls one scheme out of its map. The keys may come in any order, so both families are gathered before judging.
class SchemeReader {
 public:
  explicit SchemeReader(CborReader& cbor) : cbor_(cbor) {}

  Result<SpelledScheme> read() {
    BALLAST_CHECK(cbor_.enter_map());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_CHECK(read_key());
    }
    if (!value_ || !store_ || !mode_) {
      return cbor_.error_here(fmt::format("the scheme lacks {}", !value_ ? "value" : !store_ ? "store" : "mode"));
    }
    spelled_.scheme.value = *value_;
    spelled_.scheme.mode = *mode_;
    const bool old = seen_param_ || level_seen_;
    if (old && (seen_tensor_ || seen_block_)) {
      return cbor_.error_here("the scheme mixes the keys of two Burn versions (param or level, and tensor or block)");
    }
    BALLAST_CHECK(old ? finish_levels() : finish_scales());
    return spelled_;
  }

 private:
  Status read_key() {
    BALLAST_TRY(const std::string_view key, cbor_.read_text());
    if (key == "value") return read_word(kValues, value_, "value");
    if (key == "mode") return read_word(kModes, mode_, "mode");
    if (key == "store") return read_store();
    if (key == "param") return once(seen_param_, "param", [this] { return read_word(kScaleTypes, param_, "param"); });
    if (key == "level") return once(level_seen_, "level", [this] { return read_level(); });
    if (key == "tensor") return once(seen_tensor_, "tensor", [this] { return read_tensor(); });
    if (key == "block") return once(seen_block_, "block", [this] { return read_block(); });
    spelled_.unknown_keys = true;
    return cbor_.skip_value();
  }

  template <typename Read>
  Status once(bool& seen, std::string_view key, Read&& read) {
    if (seen) return twice(key);
    seen = true;
    return read();
  }

  Error twice(std::string_view key) const { return cbor_.error_here(fmt::format("the scheme has \"{}\" twice", key)); }

  Error unknown(std::string_view key, std::string_view name) const {
    return cbor_.error_here(
        fmt::format("quantisation {} \"{}\" is not known; the file may come from a newer Burn", key, name),
        ErrorCode::kUnsupported);
  }

  template <typename Enum, size_t n>
  Status read_word(const std::array<Word, n>& words, std::optional<Enum>& to, std::string_view key) {
    if (to) return twice(key);
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    to = find_word<Enum>(words, name, &Word::file);
    if (!to) return unknown(key, name);
    return {};
  }

  // "Native", "U32", {"PackedU32": n} or {"PackedNative": n}.
  Status read_store() {
    if (store_) return twice("store");
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kMap) return read_packed_store();
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    old_store_ = name == kOldPackedStore;
    if (!old_store_ && name != kStores[0].file) return unknown("store", name);
    store_ = old_store_ ? QuantStore::kPackedU32 : QuantStore::kNative;
    spelled_.scheme.store = *store_;
    return {};
  }

  Status read_packed_store() {
    BALLAST_CHECK(cbor_.enter_variant());
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    store_ = find_word<QuantStore>(kStores, name, &Word::file);
    if (!store_ || *store_ == QuantStore::kNative) return unknown("store", name);
    spelled_.scheme.store = *store_;
    BALLAST_TRY(spelled_.scheme.packed_axis, cbor_.read_u64());
    return cbor_.leave_variant();
  }

  // "Tensor", {"Block": size} or {"BlockTensor": {"block": size, "global": type}}.
  Status read_level() {
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type != CborType::kMap) {
      BALLAST_TRY(const std::string_view name, cbor_.read_text());
      if (name != "Tensor") return unknown("level", name);
      return {};
    }
    BALLAST_CHECK(cbor_.enter_variant());
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    if (name == "Block") {
      BALLAST_TRY(block_, read_block_size());
    } else if (name == "BlockTensor") {
      BALLAST_CHECK(read_two_levels());
    } else {
      return unknown("level", name);
    }
    return cbor_.leave_variant();
  }

  Status read_two_levels() {
    BALLAST_CHECK(cbor_.enter_map());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_TRY(const std::string_view key, cbor_.read_text());
      if (key == "block") {
        BALLAST_TRY(block_, read_block_size());
      } else if (key == "global") {
        BALLAST_CHECK(read_word(kScaleTypes, tensor_, "global"));
      } else {
        spelled_.unknown_keys = true;
        BALLAST_CHECK(cbor_.skip_value());
      }
    }
    if (!block_ || !tensor_) return cbor_.error_here("the level lacks block or global");
    return {};
  }

  Status read_tensor() {
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kNull) return cbor_.read_null();
    return read_word(kScaleTypes, tensor_, "tensor");
  }

  // null or {"size": size, "dtype": type}.
  Status read_block() {
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kNull) return cbor_.read_null();
    std::optional<ScaleType> scale;
    BALLAST_CHECK(cbor_.enter_map());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_TRY(const std::string_view key, cbor_.read_text());
      if (key == "size") {
        BALLAST_TRY(block_, read_block_size());
      } else if (key == "dtype") {
        BALLAST_CHECK(read_word(kScaleTypes, scale, "dtype"));
      } else {
        spelled_.unknown_keys = true;
        BALLAST_CHECK(cbor_.skip_value());
      }
    }
    if (!block_ || !scale) return cbor_.error_here("the block lacks size or dtype");
    block_->type = *scale;
    return {};
  }

  // {"storage": [5 x u8], "len": u8}; sizes beyond `len` mean nothing.
  Result<std::optional<BlockScale>> read_block_size() {
    if (block_) return twice("block size");
    BlockScale block;
    bool has_storage = false;
    std::optional<uint64_t> rank;
    BALLAST_CHECK(cbor_.enter_map());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_TRY(const std::string_view key, cbor_.read_text());
      if (key == "storage" && !has_storage) {
        BALLAST_CHECK(read_sizes(block));
        has_storage = true;
      } else if (key == "len" && !rank) {
        BALLAST_TRY(rank, cbor_.read_u64());
      } else {
        return cbor_.error_here(fmt::format("a block size with an unexpected \"{}\"", key));
      }
    }
    if (!has_storage || !rank) return cbor_.error_here("the block size lacks storage or len");
    if (*rank == 0 || *rank > BlockScale::kMaxRank) {
      return cbor_.error_here(
          fmt::format("a block of {} dimensions; 1 to {} are possible", *rank, BlockScale::kMaxRank));
    }
    block.rank = static_cast<uint8_t>(*rank);
    std::fill(block.sizes.begin() + block.rank, block.sizes.end(), uint8_t{1});
    if (std::ranges::find(block.sizes, 0) != block.sizes.end()) return cbor_.error_here("a block of size 0");
    return std::optional(block);
  }

  Status read_sizes(BlockScale& block) {
    BALLAST_CHECK(cbor_.enter_array());
    size_t count = 0;
    for (;; ++count) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_TRY(const uint64_t size, cbor_.read_u64());
      if (size > UINT8_MAX || count == block.sizes.size()) return cbor_.error_here("a block size out of range");
      block.sizes[count] = static_cast<uint8_t>(size);
    }
    if (count != block.sizes.size()) return cbor_.error_here("a block size needs 5 numbers");
    return {};
  }

  Status finish_levels() {
    if (!level_seen_ || !param_)
      return cbor_.error_here(fmt::format("the scheme lacks {}", param_ ? "level" : "param"));
    const bool two_levels = tensor_.has_value();
    if (block_) block_->type = *param_;
    spelled_.scheme.block = block_;
    spelled_.scheme.tensor = block_ ? tensor_ : param_;
    spelled_.spelling = old_store_ ? QuantSpelling::k019 : two_levels ? QuantSpelling::k022Pre2 : QuantSpelling::k020;
    return {};
  }

  Status finish_scales() {
    if (old_store_) return unknown("store", kOldPackedStore);
    spelled_.scheme.block = block_;
    spelled_.scheme.tensor = tensor_;
    spelled_.spelling = QuantSpelling::k022;
    if (!block_ && !tensor_) {
      spelled_.scheme.tensor = ScaleType::kF32;
      spelled_.spelling = QuantSpelling::k022Implied;
    }
    return {};
  }

  CborReader& cbor_;
  SpelledScheme spelled_{};
  std::optional<QuantValue> value_;
  std::optional<QuantStore> store_;
  std::optional<QuantMode> mode_;
  std::optional<ScaleType> param_;
  std::optional<ScaleType> tensor_;
  std::optional<BlockScale> block_;
  bool old_store_ = false;
  bool seen_param_ = false, level_seen_ = false, seen_tensor_ = false, seen_block_ = false;
};

// ---------------------------------------------------------------- writing a spelling

void write_store(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  cbor.text("store");
  if (scheme.store == QuantStore::kNative) {
    cbor.text(kStores[0].file);
  } else if (spelling == QuantSpelling::k019) {
    cbor.text(kOldPackedStore);
  } else {
    cbor.map(1).text(word_of(kStores, scheme.store).file).unsigned_number(scheme.packed_axis);
  }
}

void write_block_size(CborWriter& cbor, const BlockScale& block) {
  cbor.map(2).text("storage").array(block.sizes.size());
  for (const uint8_t size : block.sizes) cbor.unsigned_number(size);
  cbor.text("len").unsigned_number(block.rank);
}

void write_mode(CborWriter& cbor, const QuantScheme& scheme) {
  cbor.text("mode").text(word_of(kModes, scheme.mode).file);
}

void write_levels(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  cbor.map(5).text("value").text(word_of(kValues, scheme.value).file);
  const ScaleType param = scheme.block ? scheme.block->type : *scheme.tensor;
  cbor.text("param").text(word_of(kScaleTypes, param).file);
  write_store(cbor, scheme, spelling);
  cbor.text("level");
  if (!scheme.block) {
    cbor.text("Tensor");
  } else if (!scheme.tensor) {
    cbor.map(1).text("Block");
    write_block_size(cbor, *scheme.block);
  } else {
    cbor.map(1).text("BlockTensor").map(2).text("block");
    write_block_size(cbor, *scheme.block);
    cbor.text("global").text(word_of(kScaleTypes, *scheme.tensor).file);
  }
  write_mode(cbor, scheme);
}

void write_scales(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  cbor.map(5).text("value").text(word_of(kValues, scheme.value).file);
  write_store(cbor, scheme, spelling);
  write_mode(cbor, scheme);
  cbor.text("tensor");
  if (scheme.tensor && spelling != QuantSpelling::k022Implied) cbor.text(word_of(kScaleTypes, *scheme.tensor).file);
  else cbor.null();
  cbor.text("block");
  if (!scheme.block) {
    cbor.null();
    return;
  }
  cbor.map(2).text("size");
  write_block_size(cbor, *scheme.block);
  cbor.text("dtype").text(word_of(kScaleTypes, scheme.block->type).file);
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
  const auto store = find_word<QuantStore>(kStores, take_until(text, '='), &Word::text);
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
  const auto type = find_word<ScaleType>(kScaleTypes, text, &Word::text);
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

Result<SpelledScheme> read_quant_scheme(CborReader& cbor) { return SchemeReader(cbor).read(); }

bool can_spell(const QuantScheme& scheme, QuantSpelling spelling) {
  if (spelling == QuantSpelling::k022) return true;
  if (spelling == QuantSpelling::k022Implied) return scheme.has_one_f32_scale();
  if (scheme.mode != QuantMode::kSymmetric) return false;
  const bool two_levels = scheme.block && scheme.tensor;
  if (spelling == QuantSpelling::k022Pre2) return true;
  if (two_levels) return false;
  if (spelling == QuantSpelling::k020) return true;
  return scheme.store != QuantStore::kPackedNative && scheme.packed_axis == 0;
}

void write_quant_scheme(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  if (spelling >= QuantSpelling::k022) write_scales(cbor, scheme, spelling);
  else write_levels(cbor, scheme, spelling);
}

std::string quant_scheme_text(const QuantScheme& scheme) {
  std::string text = fmt::format("{}:{}", word_of(kValues, scheme.value).text, word_of(kStores, scheme.store).text);
  if (scheme.store != QuantStore::kNative) text += fmt::format("={}", scheme.packed_axis);
  text += fmt::format(":{}", word_of(kModes, scheme.mode).text);
  if (scheme.block) {
    const std::span sizes(scheme.block->sizes.data(), scheme.block->rank);
    text += fmt::format(":block={}/{}", fmt::join(sizes, "x"), word_of(kScaleTypes, scheme.block->type).text);
  }
  if (scheme.tensor) text += fmt::format(":tensor={}", word_of(kScaleTypes, *scheme.tensor).text);
  return text;
}

std::optional<QuantScheme> parse_quant_scheme(std::string_view text) {
  const std::string_view whole = text;
  QuantScheme scheme;
  const auto value = find_word<QuantValue>(kValues, take_until(text, ':'), &Word::text);
  if (!value || !parse_store(take_until(text, ':'), scheme)) return std::nullopt;
  const auto mode = find_word<QuantMode>(kModes, take_until(text, ':'), &Word::text);
  if (!mode) return std::nullopt;
  scheme.value = *value;
  scheme.mode = *mode;
  while (!text.empty()) {
    std::string_view level = take_until(text, ':');
    const std::string_view key = take_until(level, '=');
    if (key == "block") scheme.block = parse_block(level);
    else if (key == "tensor") scheme.tensor = find_word<ScaleType>(kScaleTypes, level, &Word::text);
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
