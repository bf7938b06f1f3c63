// How the versions of Burn spell a scheme in CBOR.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/formats/burnpack/burn_quant.h"
#include "ballast/formats/burnpack/burn_quant_words.h"

namespace ballast {

namespace {

constexpr std::string_view kOldPackedStore = "U32";  // Burn 0.19: packed along the last axis

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
    if (key == "value") return read_word(kQuantValueWords, value_, "value");
    if (key == "mode") return read_word(kQuantModeWords, mode_, "mode");
    if (key == "store") return read_store();
    if (key == "param")
      return once(seen_param_, "param", [this] { return read_word(kScaleTypeWords, param_, "param"); });
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
  Status read_word(const std::array<QuantWord, n>& words, std::optional<Enum>& to, std::string_view key) {
    if (to) return twice(key);
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    to = find_quant_word<Enum>(words, name, &QuantWord::file);
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
    if (!old_store_ && name != kQuantStoreWords[0].file) return unknown("store", name);
    store_ = old_store_ ? QuantStore::kPackedU32 : QuantStore::kNative;
    spelled_.scheme.store = *store_;
    return {};
  }

  Status read_packed_store() {
    BALLAST_CHECK(cbor_.enter_variant());
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    store_ = find_quant_word<QuantStore>(kQuantStoreWords, name, &QuantWord::file);
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
        BALLAST_CHECK(read_word(kScaleTypeWords, tensor_, "global"));
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
    return read_word(kScaleTypeWords, tensor_, "tensor");
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
        BALLAST_CHECK(read_word(kScaleTypeWords, scale, "dtype"));
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
    cbor.text(kQuantStoreWords[0].file);
  } else if (spelling == QuantSpelling::k019) {
    cbor.text(kOldPackedStore);
  } else {
    cbor.map(1).text(quant_word(kQuantStoreWords, scheme.store).file).unsigned_number(scheme.packed_axis);
  }
}

void write_block_size(CborWriter& cbor, const BlockScale& block) {
  cbor.map(2).text("storage").array(block.sizes.size());
  for (const uint8_t size : block.sizes) cbor.unsigned_number(size);
  cbor.text("len").unsigned_number(block.rank);
}

void write_mode(CborWriter& cbor, const QuantScheme& scheme) {
  cbor.text("mode").text(quant_word(kQuantModeWords, scheme.mode).file);
}

void write_levels(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  cbor.map(5).text("value").text(quant_word(kQuantValueWords, scheme.value).file);
  const ScaleType param = scheme.block ? scheme.block->type : *scheme.tensor;
  cbor.text("param").text(quant_word(kScaleTypeWords, param).file);
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
    cbor.text("global").text(quant_word(kScaleTypeWords, *scheme.tensor).file);
  }
  write_mode(cbor, scheme);
}

void write_scales(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling) {
  cbor.map(5).text("value").text(quant_word(kQuantValueWords, scheme.value).file);
  write_store(cbor, scheme, spelling);
  write_mode(cbor, scheme);
  cbor.text("tensor");
  if (scheme.tensor && spelling != QuantSpelling::k022Implied)
    cbor.text(quant_word(kScaleTypeWords, *scheme.tensor).file);
  else cbor.null();
  cbor.text("block");
  if (!scheme.block) {
    cbor.null();
    return;
  }
  cbor.map(2).text("size");
  write_block_size(cbor, *scheme.block);
  cbor.text("dtype").text(quant_word(kScaleTypeWords, scheme.block->type).file);
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

}  // namespace ballast
