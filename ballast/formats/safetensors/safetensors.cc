#include "ballast/formats/safetensors/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/base/sort_positions.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

constexpr uint64_t kLengthField = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the reference reader's limit, in bytes
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kEmptyMetadataForm = "metadata={}";  // the header holds an empty __metadata__

// In the order of the reference implementation's enumeration, which its writer sorts by, descending.
struct SafetensorsType {
  DType dtype;
  std::string_view name;
};
constexpr std::array kSafetensorsTypes = {
    SafetensorsType{DType::kBool, "BOOL"},
    SafetensorsType{DType::kF4, "F4"},
    SafetensorsType{DType::kF6E2M3, "F6_E2M3"},
    SafetensorsType{DType::kF6E3M2, "F6_E3M2"},
    SafetensorsType{DType::kU8, "U8"},
    SafetensorsType{DType::kI8, "I8"},
    SafetensorsType{DType::kF8E5M2, "F8_E5M2"},
    SafetensorsType{DType::kF8E4M3, "F8_E4M3"},
    SafetensorsType{DType::kF8E8M0, "F8_E8M0"},
    SafetensorsType{DType::kF8E4M3Fnuz, "F8_E4M3FNUZ"},
    SafetensorsType{DType::kF8E5M2Fnuz, "F8_E5M2FNUZ"},
    SafetensorsType{DType::kI16, "I16"},
    SafetensorsType{DType::kU16, "U16"},
    SafetensorsType{DType::kF16, "F16"},
    SafetensorsType{DType::kBF16, "BF16"},
    SafetensorsType{DType::kI32, "I32"},
    SafetensorsType{DType::kU32, "U32"},
    SafetensorsType{DType::kF32, "F32"},
    SafetensorsType{DType::kC64, "C64"},
    SafetensorsType{DType::kF64, "F64"},
    SafetensorsType{DType::kI64, "I64"},
    SafetensorsType{DType::kU64, "U64"},
};

const SafetensorsType* find_type(std::string_view name) {
  const auto found = std::ranges::find(kSafetensorsTypes, name, &SafetensorsType::name);
  return found == kSafetensorsTypes.end() ? nullptr : &*found;
}

const SafetensorsType* find_type(DType dtype) {
  const auto found = std::ranges::find(kSafetensorsTypes, dtype, &SafetensorsType::dtype);
  return found == kSafetensorsTypes.end() ? nullptr : &*found;
}

// ---------------------------------------------------------------- reading

// What the header says of a tensor beside its description.
struct HeaderEntry {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t header_offset = 0;  // where the entry stands, for findings
};

class HeaderParser {
 public:
  HeaderParser(const ByteSource& source, std::string_view text, Findings& findings)
      : source_(source), findings_(findings), json_(text, source.name() + ": header", kLengthField) {
    // Room for as many as the text can hold at all. What is not used is never touched, so it is only address space.
    constexpr std::string_view kShortest = R"("":{"dtype":"F4","shape":[],"data_offsets":[0,0]},)";
    tensors_.reserve(text.size() / kShortest.size() + 1);
    entries_.reserve(text.size() / kShortest.size() + 1);
  }

  Status parse() {
    BALLAST_CHECK(json_.enter_object());
    std::string_view key;
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(key));
      if (!more) break;
      BALLAST_CHECK(key == kMetadataKey ? parse_metadata() : add_tensor(key));
    }
    return json_.finish();
  }

  uint64_t offset() const { return json_.offset(); }
  // In the order of the header; one entry per tensor.
  std::vector<TensorInfo>& tensors() { return tensors_; }
  std::vector<HeaderEntry>& entries() { return entries_; }
  // Everything but the tensors.
  Description& description() { return description_; }

 private:
  Status parse_metadata() {
    const uint64_t offset = json_.offset();
    if (seen_metadata_) {
      BALLAST_CHECK(findings_.error("duplicate_key", offset, "",
                                    fmt::format("{}: header: __metadata__ stands twice", source_.name())));
    }
    seen_metadata_ = true;
    BALLAST_CHECK(json_.enter_object());
    std::string key;
    bool empty = true;
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(key));
      if (!more) break;
      empty = false;
      BALLAST_TRY(std::string value, json_.read_string());
      if (key == kOriginKey) description_.origin = std::move(value);
      else description_.metadata.push_back({key, std::move(value)});
    }
    if (empty) description_.stored_form = kEmptyMetadataForm;
    return check_metadata_keys(offset);
  }

  Status check_metadata_keys(uint64_t offset) {
    std::vector<std::string_view> keys;
    for (const MetaEntry& entry : description_.metadata) keys.push_back(entry.key);
    std::ranges::sort(keys);
    const auto twin = std::ranges::adjacent_find(keys);
    if (twin == keys.end()) return {};
    return findings_.error("duplicate_key", offset, "",
                           fmt::format("{}: header: metadata key \"{}\" stands twice", source_.name(), *twin));
  }

  // What breaks off inside a tensor leaves only those before it: they may be rescued.
  Status add_tensor(std::string_view name) {
    HeaderEntry& entry = entries_.emplace_back();
    TensorInfo& info = tensors_.emplace_back();
    entry.header_offset = json_.offset();
    info.name = std::string(name);  // just as long as it needs to be
    Status status = parse_tensor(info, entry);
    if (!status) {
      entries_.pop_back();
      tensors_.pop_back();
    }
    return status;
  }

  Status parse_tensor(TensorInfo& info, HeaderEntry& entry) {
    Fields seen;
    BALLAST_CHECK(json_.enter_object());
    std::string_view field;
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(field));
      if (!more) break;
      BALLAST_CHECK(parse_field(field, info, entry, seen));
    }
    if (!seen.dtype || !seen.shape || !seen.offsets) {
      return json_.error_here(fmt::format("tensor \"{}\" lacks {}", info.name,
                                          !seen.dtype   ? "dtype"
                                          : !seen.shape ? "shape"
                                                        : "data_offsets"));
    }
    return check_size(info, entry);
  }

  struct Fields {
    bool dtype = false, shape = false, offsets = false;
  };

  Status parse_field(std::string_view field, TensorInfo& info, HeaderEntry& entry, Fields& seen) {
    bool* flag = field == "dtype"          ? &seen.dtype
                 : field == "shape"        ? &seen.shape
                 : field == "data_offsets" ? &seen.offsets
                                           : nullptr;
    if (flag == nullptr) {
      return json_.error_here(fmt::format("tensor \"{}\" has an unknown field \"{}\"", info.name, field));
    }
    if (*flag) return json_.error_here(fmt::format("tensor \"{}\" has \"{}\" twice", info.name, field));
    *flag = true;
    if (flag == &seen.dtype) return parse_dtype_field(info);
    if (flag == &seen.offsets) return parse_offsets(entry);
    BALLAST_CHECK(json_.read_u64_array(numbers_));
    info.shape = Shape(numbers_);
    return {};
  }

  Status parse_dtype_field(TensorInfo& info) {
    BALLAST_TRY(const std::string_view text, json_.read_string_view());
    // Nearly always that of the tensor before.
    if (text != type_->name) {
      const SafetensorsType* type = find_type(text);
      if (type == nullptr) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: tensor \"{}\" has dtype \"{}\", which this version does not know; the file "
                                      "may come from a newer safetensors",
                                      source_.name(), info.name, text));
      }
      type_ = type;
    }
    info.dtype = type_->dtype;
    return {};
  }

  Status parse_offsets(HeaderEntry& entry) {
    BALLAST_CHECK(json_.read_u64_array(numbers_));
    if (numbers_.size() < 2) return json_.error_here("data_offsets needs two numbers");
    if (numbers_.size() > 2) return json_.error_here("data_offsets has more than two numbers");
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return {};
  }

  Status check_size(TensorInfo& info, const HeaderEntry& entry) {
    const auto expected = packed_size(info.shape, info.dtype);
    if (!expected) {
      return findings_.error("size", entry.header_offset, info.name,
                             fmt::format("{}: tensor \"{}\": shape {} of {} does not give a whole number of bytes "
                                         "below 2^64",
                                         source_.name(), info.name, info.shape.to_string(), dtype_name(info.dtype)));
    }
    info.byte_size = *expected;
    if (entry.end >= entry.begin && entry.end - entry.begin == *expected) return {};
    return findings_.error(
        "size", entry.header_offset, info.name,
        fmt::format("{}: tensor \"{}\": data_offsets [{}, {}] do not span the {} bytes of shape {} {}", source_.name(),
                    info.name, entry.begin, entry.end, *expected, info.shape.to_string(), dtype_name(info.dtype)));
  }

  const ByteSource& source_;
  Findings& findings_;
  JsonReader json_;
  Description description_;
  std::vector<TensorInfo> tensors_;
  std::vector<HeaderEntry> entries_;
  const SafetensorsType* type_ = &kSafetensorsTypes.front();  // of the last tensor
  std::vector<uint64_t> numbers_;                             // of the last list
  bool seen_metadata_ = false;
};

// Brings tensors and entries into the order of their payloads.
void sort_by_offset(std::vector<TensorInfo>& tensors, std::vector<HeaderEntry>& entries) {
  const auto place = [](const HeaderEntry& entry) { return std::pair(entry.begin, entry.end); };
  if (std::ranges::is_sorted(entries, {}, place)) return;
  std::vector<uint32_t> order = all_positions(entries.size());
  sort_positions(order, [&](uint32_t a, uint32_t b) { return place(entries[a]) < place(entries[b]); });
  std::vector<TensorInfo> sorted_tensors;
  std::vector<HeaderEntry> sorted_entries;
  sorted_tensors.reserve(order.size());
  sorted_entries.reserve(order.size());
  for (const uint32_t i : order) {
    sorted_tensors.push_back(std::move(tensors[i]));
    sorted_entries.push_back(entries[i]);
  }
  tensors = std::move(sorted_tensors);
  entries = std::move(sorted_entries);
}

Result<uint64_t> header_length(const ByteSource& source) {
  if (source.size() < kLengthField) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} bytes are too few for a safetensors file; it was "
                                                       "probably cut short",
                                                       source.name(), source.size()));
  }
  std::array<std::byte, kLengthField> field;
  BALLAST_CHECK(source.read_at(0, field));
  const auto length = load_le<uint64_t>(field.data());
  if (length > kMaxHeader) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: the header claims {} bytes; the format allows {}",
                                                       source.name(), length, kMaxHeader));
  }
  if (length > source.size() - kLengthField) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: the header claims {} bytes but only {} follow; the file was probably cut short",
                                  source.name(), length, source.size() - kLengthField));
  }
  return length;
}

// The same bytes for two tensors (tied weights) are against the rules of the format, but each tensor is what it says.
Status report_overlap(const ByteSource& source, const std::string& name, const HeaderEntry& entry,
                      const HeaderEntry* previous, uint64_t expected, uint64_t data_start, Findings& findings) {
  std::string text =
      fmt::format("{}: tensor \"{}\" begins at byte {} of the data, inside the tensor before it, which ends at {}",
                  source.name(), name, entry.begin, expected);
  const bool tied = previous != nullptr && previous->begin == entry.begin && previous->end == entry.end;
  const uint64_t offset = data_start + entry.begin;
  return tied ? findings.layout_error("overlap", offset, name, std::move(text))
              : findings.error("overlap", offset, name, std::move(text));
}

// No holes, no overlap, nothing after the last tensor: the rule that keeps a file from being two things at once.
Status check_coverage(const ByteSource& source, std::span<const TensorInfo> tensors,
                      const std::vector<HeaderEntry>& entries, uint64_t data_start, Findings& findings) {
  uint64_t expected = 0;
  const HeaderEntry* previous = nullptr;
  const uint64_t available = source.size() - data_start;
  for (size_t i = 0; i < entries.size(); ++i) {
    const HeaderEntry& entry = entries[i];
    const std::string& name = tensors[i].name;
    if (entry.begin > expected) {
      BALLAST_CHECK(
          findings.layout_error("hole", data_start + entry.begin, name,
                                fmt::format("{}: tensor \"{}\" begins at byte {} of the data, leaving a hole after {}",
                                            source.name(), name, entry.begin, expected)));
    } else if (entry.begin < expected) {
      BALLAST_CHECK(report_overlap(source, name, entry, previous, expected, data_start, findings));
    }
    previous = &entry;
    if (entry.end > available) {
      BALLAST_CHECK(findings.error("truncated", source.size(), name,
                                   fmt::format("{}: tensor \"{}\" ends at byte {} of the data, but the file has only "
                                               "{}; it was probably cut short",
                                               source.name(), name, entry.end, available)));
    }
    expected = std::max(expected, entry.end);
  }
  if (expected < available) {
    return findings.error("trailing_bytes", data_start + expected, "",
                          fmt::format("{}: {} bytes follow the last tensor", source.name(), available - expected));
  }
  return {};
}

Status check_duplicate_names(const ByteSource& source, std::span<const TensorInfo> tensors,
                             const std::vector<HeaderEntry>& entries, Findings& findings) {
  for (const size_t index : find_duplicate_names(tensors)) {
    BALLAST_CHECK(
        findings.error("duplicate_name", entries[index].header_offset, tensors[index].name,
                       fmt::format("{}: tensor name \"{}\" stands twice", source.name(), tensors[index].name)));
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> parse_safetensors(const ByteSource& source, Findings& findings) {
  BALLAST_TRY(const uint64_t length, header_length(source));
  BALLAST_TRY(const BytesOrView header, BytesOrView::of(source, kLengthField, length));
  const std::string_view text = as_text(header.bytes());
  if (text.empty() || text.front() != '{') {
    findings.note("leading_space", kLengthField, "", [] { return std::string("the header does not begin with '{'"); });
  }
  HeaderParser parser(source, text, findings);
  if (Status parsed = parser.parse(); !parsed) {
    BALLAST_CHECK(findings.broken_off(parser.offset(), std::move(parsed).error()));
  }

  SafetensorsFile file{std::move(parser.description()), {}};
  std::vector<TensorInfo>& tensors = file.description.tensors;
  tensors = std::move(parser.tensors());
  std::vector<HeaderEntry>& entries = parser.entries();
  sort_by_offset(tensors, entries);
  const uint64_t data_start = kLengthField + length;
  BALLAST_CHECK(check_coverage(source, tensors, entries, data_start, findings));
  BALLAST_CHECK(check_duplicate_names(source, tensors, entries, findings));

  file.description.format = kSafetensorsReader.name;
  file.description.version = "1";
  file.extents.resize(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    file.extents[i].offset = data_start + entries[i].begin;
    file.extents[i].length = tensors[i].byte_size;
  }
  return file;
}

namespace {

SniffMatch sniff_safetensors(const SniffInput& input) {
  if (looks_like_safetensors_index(input.head)) return SniffMatch::kCertain;
  if (input.head.size() < kLengthField + 1) return SniffMatch::kNo;
  const auto length = load_le<uint64_t>(input.head.data());
  const std::string_view text = as_text(input.head.subspan(kLengthField));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return SniffMatch::kNo;
  // A length that cannot be right still points here: nothing else has a brace behind eight bytes.
  return length <= kMaxHeader && length <= input.size - kLengthField ? SniffMatch::kCertain : SniffMatch::kLikely;
}

Result<Archive> open_safetensors(const OpenRequest& request, Findings& findings) {
  const uint64_t head_size = std::min<uint64_t>(request.source->size(), kSniffBytes);
  BALLAST_TRY(const BytesOrView head, BytesOrView::of(*request.source, 0, head_size));
  if (looks_like_safetensors_index(head.bytes())) return open_safetensors_index(request, findings);
  BALLAST_TRY(SafetensorsFile file, parse_safetensors(*request.source, findings));
  return Archive(std::move(file.description), std::move(file.extents), {request.source});
}

// ---------------------------------------------------------------- writing

std::vector<Loss> find_safetensors_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  for (const TensorInfo& tensor : description.tensors) {
    if (find_type(tensor.dtype) != nullptr) continue;
    losses.push_back(unsupported_dtype_loss(tensor, kSafetensorsReader.name,
                                            [](DType dtype) { return find_type(dtype) != nullptr; }));
  }
  return losses;
}

void append_metadata(std::string& json, const Description& description) {
  std::string fields;
  const auto append = [&fields](std::string_view key, std::string_view value) {
    if (!fields.empty()) fields += ",";
    append_json_string(fields, key);
    fields += ":";
    append_json_string(fields, value);
  };
  for (const MetaEntry& entry : description.metadata) {
    // Values of other types, and bytes that are no UTF-8, have no place here and travel in the origin.
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text != nullptr && is_valid_utf8(entry.key) && is_valid_utf8(*text)) append(entry.key, *text);
  }
  if (description.origin) append(kOriginKey, *description.origin);
  const bool keeps_empty =
      description.format == kSafetensorsReader.name && description.stored_form == kEmptyMetadataForm;
  if (fields.empty() && !keeps_empty) return;
  append_json_string(json, kMetadataKey);
  json += ":{" + fields + "}";
}

void append_tensor(std::string& json, const TensorInfo& tensor, uint64_t begin) {
  if (json.size() > 1) json += ",";
  append_json_string(json, tensor.name);
  json += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", find_type(tensor.dtype)->name,
                      fmt::join(tensor.shape.dims(), ","), begin, begin + tensor.byte_size);
}

class SafetensorsWrite final : public PlannedWrite {
 public:
  explicit SafetensorsWrite(SafetensorsLayout layout)
      : layout_(std::move(layout)), files_{{"", layout_.header.size() + layout_.payload_bytes}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }

  Status emit(size_t, ByteSink& sink, TensorFeed& feed) const override {
    BALLAST_CHECK(sink.write_text(layout_.header));
    for (const size_t index : layout_.order) BALLAST_CHECK(feed.emit(index, {}, sink));
    return {};
  }

 private:
  SafetensorsLayout layout_;
  std::vector<PlannedFile> files_;
};

Result<std::unique_ptr<PlannedWrite>> plan_safetensors(const WriteRequest& request) {
  if (request.options.shard_size != 0) return plan_safetensors_shards(request);
  std::vector<size_t> all(request.description.tensors.size());
  std::iota(all.begin(), all.end(), size_t{0});
  BALLAST_TRY(SafetensorsLayout layout, plan_safetensors(request.description, std::move(all)));
  return std::unique_ptr<PlannedWrite>(std::make_unique<SafetensorsWrite>(std::move(layout)));
}

constexpr std::string_view kSafetensorsExtensions[] = {".safetensors"};

}  // namespace

Result<SafetensorsLayout> plan_safetensors(const Description& description, std::vector<size_t> members) {
  const auto& tensors = description.tensors;
  std::ranges::sort(members, [&](size_t a, size_t b) {
    const SafetensorsType* type_a = find_type(tensors[a].dtype);
    const SafetensorsType* type_b = find_type(tensors[b].dtype);
    return type_a != type_b ? type_a > type_b : tensors[a].name < tensors[b].name;
  });
  SafetensorsLayout layout;
  std::string json = "{";
  append_metadata(json, description);
  for (const size_t index : members) {
    const auto end = checked_add(layout.payload_bytes, tensors[index].byte_size);
    if (!end) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
    append_tensor(json, tensors[index], layout.payload_bytes);
    layout.payload_bytes = *end;
  }
  json += "}";
  while (json.size() % 8 != 0) json += ' ';
  if (json.size() > kMaxHeader) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the header would take {} bytes; safetensors allows {}: write several files",
                                  json.size(), kMaxHeader),
                      Remedy::kChooseShardSize);
  }
  append_le<uint64_t>(layout.header, json.size());
  layout.header += json;
  layout.order = std::move(members);
  return layout;
}

constexpr FormatReader kSafetensorsReader = {
    .name = "safetensors",
    .summary = "Hugging Face safetensors: one file, or shards with an index",
    .extensions = kSafetensorsExtensions,
    .sniff = sniff_safetensors,
    .open = open_safetensors,
    .can_be_shard = true,
};

constexpr FormatWriter kSafetensorsWriter = {
    .find_losses = find_safetensors_losses,
    .plan_write = plan_safetensors,
    .can_shard = true,
};

// The whole row knows shards of every format, if only to say which they are.
constexpr FormatReader kReaderAmongAll = [] {
  FormatReader reader = kSafetensorsReader;
  reader.open = [](const OpenRequest& request, Findings& findings) {
    OpenRequest among = request;
    if (among.readers.empty()) among.readers = all_readers();
    return open_safetensors(among, findings);
  };
  return reader;
}();
const FormatDriver kSafetensorsDriver = {kReaderAmongAll, kSafetensorsWriter};

}  // namespace ballast
