// The CBOR metadata of a Burnpack file, checked entry by entry.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ballast/base/sort_positions.h"
#include "ballast/formats/burnpack/burnpack.h"

namespace ballast {

namespace {

struct BurnpackType {
  DType dtype;
  std::string_view name;
};
constexpr std::array kBurnpackTypes = {
    BurnpackType{DType::kF64, "F64"},   BurnpackType{DType::kF32, "F32"},       BurnpackType{DType::kF16, "F16"},
    BurnpackType{DType::kBF16, "BF16"}, BurnpackType{DType::kFlex32, "Flex32"}, BurnpackType{DType::kI64, "I64"},
    BurnpackType{DType::kI32, "I32"},   BurnpackType{DType::kI16, "I16"},       BurnpackType{DType::kI8, "I8"},
    BurnpackType{DType::kU64, "U64"},   BurnpackType{DType::kU32, "U32"},       BurnpackType{DType::kU16, "U16"},
    BurnpackType{DType::kU8, "U8"},
};

constexpr std::array<std::string_view, 5> kQuantForms = {"qfloat=0.19", "qfloat=0.20", "qfloat=0.22-pre.2", "",
                                                         "qfloat=implied"};

// Shapes of more than four dimensions lie outside the index; this many dimensions in all keep a file from growing
// many times its size when it is opened.
constexpr uint64_t kMaxOutlyingDims = uint64_t{1} << 20;
constexpr size_t kInsideDims = 4;
// An entry takes far more memory than the two bytes it needs in the file. Real ones have ids and paths in them.
constexpr uint64_t kFreeEntries = 100'000;
constexpr uint64_t kBytesPerEntry = 32;

class MetadataParser {
 public:
  MetadataParser(const ByteSource& source, ByteSpan bytes, Findings& findings)
      : source_(source),
        findings_(findings),
        cbor_(bytes, source.name() + ": metadata", kBurnHeaderSize),
        bytes_(bytes.size()),
        max_entries_(kFreeEntries + bytes.size() / kBytesPerEntry) {}

  Result<BurnMetadata> parse() {
    if (Status parsed = parse_sections(); !parsed) {
      BALLAST_CHECK(findings_.broken_off(cbor_.offset(), std::move(parsed).error()));
    } else {
      check_spelling();
    }
    return std::move(result_);
  }

 private:
  Status parse_sections() {
    BALLAST_CHECK(cbor_.enter_map());
    Sections seen;
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_CHECK(parse_section(seen));
    }
    if (!seen.tensors) return cbor_.error_here("the metadata has no \"tensors\"");
    return {};
  }

  struct Sections {
    bool tensors = false, metadata = false, scalars = false;
  };
  struct Fields {
    bool dtype = false, shape = false, offsets = false, param_id = false;
  };

  Status parse_section(Sections& seen) {
    const uint64_t offset = cbor_.offset();
    BALLAST_TRY(const std::string_view key, cbor_.read_text());
    bool* flag = key == "tensors"    ? &seen.tensors
                 : key == "metadata" ? &seen.metadata
                 : key == "scalars"  ? &seen.scalars
                                     : nullptr;
    if (flag == nullptr) return skip_unknown(offset, "", key);
    if (*flag) return cbor_.error_here(fmt::format("\"{}\" stands twice", key));
    *flag = true;
    if (flag == &seen.tensors) return parse_tensors();
    return parse_entries(flag == &seen.scalars);
  }

  // Burn passes over such keys too; whoever writes the file again drops them.
  Status skip_unknown(uint64_t offset, const std::string& tensor, std::string_view key) {
    findings_.warning("unknown_key", offset, tensor, [&] {
      return fmt::format("{}: the metadata has a key \"{}\" that neither Burn nor Ballast knows", source_.name(), key);
    });
    return cbor_.skip_value();
  }

  // ---------------------------------------------------------------- metadata and scalars

  Status parse_entries(bool scalars) {
    const uint64_t offset = cbor_.offset();
    BALLAST_CHECK(cbor_.enter_map());
    BALLAST_TRY(const uint64_t count, cbor_.count_ahead());
    auto& entries = result_.description.metadata;
    const size_t first = entries.size();
    if (first + count > max_entries_) {
      return cbor_.error_here(
          fmt::format("{} entries, more than the {} that metadata of this size may have", first + count, max_entries_),
          ErrorCode::kUnsupported);
    }
    entries.reserve(first + static_cast<size_t>(count));  // no more than max_entries_
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_TRY(const std::string_view key, cbor_.read_text());
      BALLAST_CHECK(scalars ? parse_scalar(std::string(key)) : parse_text(std::string(key)));
    }
    drop_repeated_keys(offset, first);
    return {};
  }

  Status parse_text(std::string key) {
    BALLAST_TRY(const std::string_view value, cbor_.read_text());
    if (key == kOriginKey) result_.description.origin = value;
    else result_.description.metadata.push_back({std::move(key), std::string(value)});
    return {};
  }

  // {"Int": -1}, {"UInt": 1}, {"Float": 0.5} or {"Bool": true}
  Status parse_scalar(std::string key) {
    BALLAST_CHECK(cbor_.enter_variant());
    BALLAST_TRY(const std::string_view variant, cbor_.read_text());
    MetaEntry entry{std::move(key), false};
    if (variant == "Int") {
      BALLAST_TRY(entry.value, cbor_.read_i64());
    } else if (variant == "UInt") {
      BALLAST_TRY(entry.value, cbor_.read_u64());
    } else if (variant == "Float") {
      BALLAST_TRY(entry.value, cbor_.read_double());
    } else if (variant == "Bool") {
      BALLAST_TRY(entry.value, cbor_.read_bool());
    } else {
      return cbor_.error_here(
          fmt::format("scalar \"{}\" has type \"{}\", which is not known; the file may come from a newer Burn",
                      entry.key, variant),
          ErrorCode::kUnsupported);
    }
    result_.description.metadata.push_back(std::move(entry));
    return cbor_.leave_variant();
  }

  // The last of two namesakes counts, as in Burn.
  void drop_repeated_keys(uint64_t offset, size_t first) {
    auto& entries = result_.description.metadata;
    const auto not_below = [](const MetaEntry& a, const MetaEntry& b) { return a.key >= b.key; };
    const auto begin = entries.begin() + static_cast<ptrdiff_t>(first);
    if (std::adjacent_find(begin, entries.end(), not_below) == entries.end()) return;
    std::vector<uint32_t> order(entries.size() - first);
    std::iota(order.begin(), order.end(), static_cast<uint32_t>(first));
    sort_positions(order, [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
    std::vector<bool> dropped(entries.size(), false);
    bool any = false;
    for (size_t i = 1; i < order.size(); ++i) {
      if (entries[order[i - 1]].key != entries[order[i]].key) continue;
      any = dropped[order[i - 1]] = true;
      findings_.warning("duplicate_key", offset, "", [&] {
        return fmt::format("{}: metadata key \"{}\" stands twice; the last one counts", source_.name(),
                           entries[order[i]].key);
      });
    }
    if (!any) return;
    size_t position = 0;
    std::erase_if(entries, [&](const MetaEntry&) { return dropped[position++]; });
  }

  // ---------------------------------------------------------------- tensors

  Status parse_tensors() {
    BALLAST_CHECK(cbor_.enter_map());
    // No descriptor is shorter than its keys, so no claim reserves many times the size of the file.
    constexpr std::string_view kShortest = "dtypeU8shapedata_offsets";
    const uint64_t claimed = cbor_.claimed_entries().value_or(0);
    if (claimed > kBurnMaxTensors) return too_many_tensors(claimed);
    const auto likely = static_cast<size_t>(std::min<uint64_t>(claimed, bytes_ / kShortest.size()));
    result_.description.tensors.reserve(likely);
    result_.extents.reserve(likely);
    result_.header_offsets.reserve(likely);
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) return {};
      BALLAST_CHECK(add_tensor());
      if (result_.extents.size() > kBurnMaxTensors) return too_many_tensors(result_.extents.size());
    }
  }

  Error too_many_tensors(uint64_t count) const {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: {} tensors; Burnpack readers take at most {}",
                                                           source_.name(), count, kBurnMaxTensors));
  }

  // What breaks off inside a tensor leaves only those before it: they may be rescued.
  Status add_tensor() {
    Status status = parse_tensor(result_.description.tensors.emplace_back());
    if (!status) result_.description.tensors.pop_back();
    return status;
  }

  Status parse_tensor(TensorInfo& info) {
    const uint64_t offset = cbor_.offset();
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    info.name = std::string(name);
    if (auto status = parse_descriptor(info, offset); !status) {
      return std::move(status).error().with_context(fmt::format("tensor \"{}\"", info.name));
    }
    BALLAST_CHECK(check_range(info, offset));
    result_.extents.push_back({.offset = begin_, .length = end_ - begin_});
    result_.header_offsets.push_back(offset);
    return {};
  }

  Status parse_descriptor(TensorInfo& info, uint64_t tensor_offset) {
    Fields seen;
    scheme_.reset();
    BALLAST_CHECK(cbor_.enter_map());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) break;
      BALLAST_CHECK(parse_field(info, tensor_offset, seen));
    }
    if (seen.dtype && seen.shape && seen.offsets) return {};
    return cbor_.error_here(fmt::format("the descriptor lacks \"{}\"", !seen.dtype   ? "dtype"
                                                                       : !seen.shape ? "shape"
                                                                                     : "data_offsets"));
  }

  Status parse_field(TensorInfo& info, uint64_t tensor_offset, Fields& seen) {
    const uint64_t offset = cbor_.offset();
    BALLAST_TRY(const std::string_view key, cbor_.read_text());
    bool* flag = key == "dtype"          ? &seen.dtype
                 : key == "shape"        ? &seen.shape
                 : key == "data_offsets" ? &seen.offsets
                 : key == "param_id"     ? &seen.param_id
                                         : nullptr;
    if (flag == nullptr) return skip_unknown(offset, info.name, key);
    if (*flag) return cbor_.error_here(fmt::format("the descriptor has \"{}\" twice", key));
    *flag = true;
    if (flag == &seen.dtype) return parse_dtype_field(info, tensor_offset);
    if (flag == &seen.shape) return parse_shape(info);
    if (flag == &seen.offsets) return parse_offsets(info, tensor_offset);
    return parse_param_id(info);
  }

  Status parse_dtype_field(TensorInfo& info, uint64_t tensor_offset) {
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kMap) return parse_dtype_map(info);
    BALLAST_TRY(const std::string_view name, cbor_.read_text());
    if (name == "Bool") {
      info.dtype = DType::kBool;
      info.set_stored_form(std::string(kBurnBoolText));
      result_.text_bools.add(info.name, tensor_offset);
      return {};
    }
    if (const auto dtype = find_burn_dtype(name)) {
      info.dtype = *dtype;
      return {};
    }
    info.dtype = DType::kOpaque;
    return findings_.error("dtype", tensor_offset, info.name,
                           fmt::format("{}: tensor \"{}\" has dtype \"{}\", which this version does not know; the file "
                                       "may come from a newer Burn",
                                       source_.name(), info.name, name),
                           ErrorCode::kUnsupported);
  }

  // {"Bool": store} or {"QFloat": scheme}
  Status parse_dtype_map(TensorInfo& info) {
    BALLAST_CHECK(cbor_.enter_variant());
    BALLAST_TRY(const std::string_view variant, cbor_.read_text());
    if (variant == "Bool") {
      BALLAST_CHECK(parse_bool_store(info));
    } else if (variant == "QFloat") {
      BALLAST_CHECK(parse_scheme(info));
    } else if (find_burn_dtype(variant)) {
      return cbor_.error_here(fmt::format("dtype {} stands as a map; it is plain text", variant));
    } else {
      return cbor_.error_here(fmt::format("dtype {} is not known; the file may come from a newer Burn", variant),
                              ErrorCode::kUnsupported);
    }
    return cbor_.leave_variant();
  }

  Status parse_bool_store(TensorInfo& info) {
    BALLAST_TRY(const std::string_view store, cbor_.read_text());
    info.dtype = store == "U32" ? DType::kBool32 : DType::kBool;
    if (store == "U8") info.set_stored_form(std::string(kBurnBoolU8));
    else if (store != "Native" && store != "U32") {
      return cbor_.error_here(fmt::format("truth values stored as \"{}\" are not known", store),
                              ErrorCode::kUnsupported);
    }
    return {};
  }

  Status parse_scheme(TensorInfo& info) {
    const uint64_t offset = cbor_.offset();
    BALLAST_TRY(const SpelledScheme spelled, read_quant_scheme(cbor_));
    info.dtype = DType::kQFloat;
    info.set_scheme(quant_scheme_text(spelled.scheme));
    scheme_ = spelled.scheme;
    if (spelled.unknown_keys) {
      findings_.warning("unknown_key", offset, info.name, [&] {
        return fmt::format("{}: tensor \"{}\": its scheme has keys that nobody knows", source_.name(), info.name);
      });
    }
    if (spelled.spelling < QuantSpelling::k022) {
      auto& old = spelled.scheme.has_one_f32_scale() ? result_.harmless_schemes : result_.misread_schemes;
      old.add(info.name, offset);
    }
    // Only spellings that some Burn writes are kept; a file in any other form is not re-encoded byte for byte anyway.
    if (!can_spell(spelled.scheme, spelled.spelling)) return {};
    CborWriter again;
    write_quant_scheme(again, spelled.scheme, spelled.spelling);
    if (as_text(cbor_.since(offset)) == again.bytes()) {
      info.set_stored_form(std::string(quant_form(spelled.spelling)));
    }
    return {};
  }

  // An array of numbers, or bytes, each of which is one: Burn's decoder takes both.
  Status parse_numbers(size_t most) {
    numbers_.clear();
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kBytes) {
      BALLAST_TRY(const ByteSpan bytes, cbor_.read_bytes());
      if (bytes.size() > most) return too_many_numbers(most);
      for (const std::byte b : bytes) numbers_.push_back(std::to_integer<uint64_t>(b));
      return {};
    }
    BALLAST_CHECK(cbor_.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, cbor_.next());
      if (!more) return {};
      BALLAST_TRY(const uint64_t number, cbor_.read_u64());
      if (numbers_.size() == most) return too_many_numbers(most);
      numbers_.push_back(number);
    }
  }

  Error too_many_numbers(size_t most) const {
    return cbor_.error_here(fmt::format("more than {} numbers in one list", most), ErrorCode::kUnsupported);
  }

  Status parse_shape(TensorInfo& info) {
    BALLAST_CHECK(parse_numbers(kBurnMaxRank));
    if (numbers_.size() > kInsideDims) outlying_dims_ += numbers_.size();
    if (outlying_dims_ > kMaxOutlyingDims) {
      return cbor_.error_here(fmt::format("the shapes together have more than {} dimensions", kMaxOutlyingDims),
                              ErrorCode::kUnsupported);
    }
    info.shape = Shape(numbers_);
    return {};
  }

  Status parse_offsets(const TensorInfo& info, uint64_t tensor_offset) {
    constexpr size_t kTolerated = 8;
    BALLAST_CHECK(parse_numbers(kTolerated));
    if (numbers_.size() < 2) return cbor_.error_here("data_offsets needs two numbers");
    if (numbers_.size() > 2) {
      findings_.warning("data_offsets", tensor_offset, info.name, [&] {
        return fmt::format("{}: tensor \"{}\": data_offsets has {} numbers; the first two count", source_.name(),
                           info.name, numbers_.size());
      });
    }
    begin_ = numbers_[0];
    end_ = numbers_[1];
    return {};
  }

  Status parse_param_id(TensorInfo& info) {
    BALLAST_TRY(const CborType type, cbor_.peek());
    if (type == CborType::kNull) return cbor_.read_null();
    BALLAST_TRY(info.param_id, cbor_.read_u64());
    return {};
  }

  // ---------------------------------------------------------------- checks

  Status check_range(TensorInfo& info, uint64_t offset) {
    if (end_ < begin_) {
      BALLAST_CHECK(findings_.error("range", offset, info.name,
                                    fmt::format("{}: tensor \"{}\": data_offsets [{}, {}] end before they begin",
                                                source_.name(), info.name, begin_, end_)));
      end_ = begin_;
    }
    info.byte_size = end_ - begin_;
    if (info.dtype == DType::kQFloat) check_scheme_length(info, offset);
    if (!has_fixed_size(info.dtype)) return {};
    const auto expected = packed_size(info.shape, info.dtype);
    if (expected == info.byte_size) return {};
    return findings_.error(
        "size", offset, info.name,
        expected ? fmt::format("{}: tensor \"{}\": data_offsets [{}, {}] do not span the {} bytes of shape {} {}",
                               source_.name(), info.name, begin_, end_, *expected, info.shape.to_string(),
                               dtype_name(info.dtype))
                 : fmt::format("{}: tensor \"{}\": shape {} of {} exceeds 2^64 bytes", source_.name(), info.name,
                               info.shape.to_string(), dtype_name(info.dtype)));
  }

  void check_scheme_length(const TensorInfo& info, uint64_t offset) {
    if (!findings_.collects()) return;
    const auto expected = quant_length(*scheme_, info.shape);
    if (expected && (info.byte_size == expected->by_line || info.byte_size == expected->flat)) return;
    findings_.warning("qfloat_length", offset, info.name, [&] {
      return fmt::format("{}: tensor \"{}\": {} bytes, but scheme {} of shape {} takes {}", source_.name(), info.name,
                         info.byte_size, info.scheme(), info.shape.to_string(),
                         expected ? std::to_string(expected->by_line) : "another number of dimensions");
    });
  }

  void check_spelling() {
    if (!cbor_.at_end()) {
      findings_.warning("metadata_trailing", cbor_.offset(), "",
                        [&] { return fmt::format("{}: the metadata goes on after its end", source_.name()); });
    }
    if (cbor_.oddity()) {
      findings_.note("cbor_form", cbor_.oddity()->offset, "", [&] {
        return fmt::format("{}: the metadata has {}, which Burn's writer never uses", source_.name(),
                           cbor_.oddity()->what);
      });
    }
    const auto& tensors = result_.description.tensors;
    if (findings_.collects() && !std::ranges::is_sorted(tensors, {}, &TensorInfo::name)) {
      findings_.note("unsorted_names", kBurnHeaderSize, "", [&] {
        return fmt::format("{}: the tensors are not sorted by name, as Burn's writer does", source_.name());
      });
    }
  }

  const ByteSource& source_;
  Findings& findings_;
  CborReader cbor_;
  uint64_t bytes_;  // of the metadata
  uint64_t max_entries_;
  BurnMetadata result_;
  uint64_t outlying_dims_ = 0;
  // Of the tensor being read.
  std::vector<uint64_t> numbers_;
  std::optional<QuantScheme> scheme_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace

std::string_view burn_dtype_name(DType dtype) {
  const auto found = std::ranges::find(kBurnpackTypes, dtype, &BurnpackType::dtype);
  return found == kBurnpackTypes.end() ? std::string_view() : found->name;
}

std::optional<DType> find_burn_dtype(std::string_view name) {
  const auto found = std::ranges::find(kBurnpackTypes, name, &BurnpackType::name);
  if (found == kBurnpackTypes.end()) return std::nullopt;
  return found->dtype;
}

std::string_view quant_form(QuantSpelling spelling) { return kQuantForms[static_cast<size_t>(spelling)]; }

QuantSpelling parse_quant_form(std::string_view form) {
  const auto found = std::ranges::find(kQuantForms, form);
  return found == kQuantForms.end() ? QuantSpelling::k022 : static_cast<QuantSpelling>(found - kQuantForms.begin());
}

Result<BurnMetadata> parse_burn_metadata(const ByteSource& source, ByteSpan cbor, Findings& findings) {
  return MetadataParser(source, cbor, findings).parse();
}

}  // namespace ballast
