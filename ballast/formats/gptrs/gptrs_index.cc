#include "ballast/formats/gptrs/gptrs_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/base/param_id.h"
#include "ballast/base/sort_positions.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/gptrs/gptrs_early_index.h"
#include "ballast/formats/gptrs/gptrs_fields.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

// Bytes to read ahead: an index is read to its end, but behind each record of version 1 a payload is skipped.
constexpr uint64_t kIndexWindow = 64 * 1024;
constexpr uint64_t kRecordWindow = 4 * 1024;

// What a tensor costs in memory, less its name and shape where they are long.
constexpr uint64_t kTensorMemory = sizeof(TensorInfo) + sizeof(StoredExtent) + 3 * sizeof(uint32_t);
constexpr uint64_t kHeapBlock = 32;  // what an allocation costs beyond its size

// In the order of their tags.
constexpr std::array kTags = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32};

// Names and shapes as error texts show them: a hostile one may be as long as the file.
std::string shown(std::string_view name) {
  constexpr size_t kMost = 200;
  if (name.size() <= kMost) return fmt::format("\"{}\"", name);
  return fmt::format("\"{:.{}}...\" ({} bytes)", name, kMost, name.size());
}

std::string shown(const Shape& shape) {
  constexpr size_t kMost = 16;
  return shape.rank() <= kMost ? shape.to_string() : fmt::format("of {} dimensions", shape.rank());
}

uint64_t aligned_up(uint64_t offset) {
  const uint64_t rest = offset % kGptrsAlignment;
  return rest == 0 || offset > UINT64_MAX - kGptrsAlignment ? offset : offset + (kGptrsAlignment - rest);
}

Error not_the_magic(const ByteSource& source, const GptrsKind& kind) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: does not begin with \"{}\"; it is no {} file", source.name(),
                                                     kind.magic, kind.format));
}

class ContentsParser {
 public:
  ContentsParser(const ByteSource& source, const GptrsKind& kind, uint32_t version, uint64_t begin, uint64_t end,
                 Findings& findings)
      : source_(source),
        kind_(kind),
        sequential_(version == kGptrsSequential),
        begin_(begin),
        end_(end),
        findings_(findings),
        fields_(source, begin, end, sequential_ ? kRecordWindow : kIndexWindow) {
    zero_id_.set_stored_form(std::string(kGptrsZeroIdForm));
  }

  Result<GptrsContents> parse() {
    if (Status parsed = parse_records(); !parsed) {
      BALLAST_CHECK(findings_.broken_off(fields_.position(), std::move(parsed).error()));
    } else if (fields_.remaining() > 0) {
      report_rest();
    }
    if (!sequential_ && findings_.collects()) BALLAST_CHECK(check_coverage());
    drop_namesakes();
    if (!sequential_) mark_ties(contents_.tensors, contents_.extents);
    contents_.is_aligned = !sequential_ && payloads_are_aligned();
    return std::move(contents_);
  }

 private:
  Status parse_records() {
    BALLAST_TRY(const uint32_t count, fields_.take_le<uint32_t>("the number of tensors"));
    BALLAST_CHECK(reserve(count));
    for (uint32_t i = 0; i < count; ++i) BALLAST_CHECK(parse_record());
    return {};
  }

  // A tensor without name, shape and payload.
  uint64_t smallest_record() const {
    return sequential_ ? kGptrsRecordSize - sizeof(uint64_t) : gptrs_record_size(kind_, 0, 0);
  }

  // What the file claims must fit the bytes that are there, and what it costs must stay in proportion to them.
  Status reserve(uint32_t count) {
    const uint64_t room = fields_.remaining() / smallest_record();
    if (count > room) {
      return make_error(
          ErrorCode::kCorrupt,
          fmt::format("{}: byte {}: {} tensors are announced, but the {} bytes of the {} have room for "
                      "{} at most",
                      source_.name(), begin_, count, fields_.remaining(), sequential_ ? "file" : "index", room));
    }
    // A damaged count reserves no more than charge() would let pass.
    const auto affordable = static_cast<size_t>(std::min<uint64_t>(count, memory_limit() / kTensorMemory));
    contents_.tensors.reserve(affordable);
    contents_.extents.reserve(affordable);
    return {};
  }

  // A tiny record costs several times its size in memory; a file of nothing but those is refused, not served.
  uint64_t memory_limit() const {
    constexpr uint64_t kFree = 8 << 20;
    return 4 * (source_.size() - begin_) + kFree;
  }

  Status charge(uint64_t bytes) {
    memory_ += bytes;
    if (memory_ <= memory_limit()) return {};
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: its {} tensors or more would take over {} bytes of memory, out of proportion to "
                                  "the file's {}: hardly any holds a value",
                                  source_.name(), contents_.tensors.size(), memory_limit(), source_.size()));
  }

  Status parse_record() {
    BALLAST_CHECK(charge(kTensorMemory));
    const uint64_t record_offset = fields_.position();
    BALLAST_TRY(std::string name, parse_name());
    const bool zero_id_possible = kind_.is_checkpoint && !sequential_;
    BALLAST_TRY(const bool zero_id, zero_id_possible ? parse_id(name) : Result<bool>(false));
    // Copying shares what holds the stored form, so that the zero costs no memory per tensor.
    TensorInfo info = zero_id ? zero_id_ : TensorInfo();
    info.name = std::move(name);
    BALLAST_CHECK(parse_shape(info));
    BALLAST_TRY(const uint32_t tag, fields_.take_le<uint32_t>("a dtype"));
    BALLAST_TRY(const uint8_t flag, fields_.take_le<uint8_t>("a requires_grad byte"));
    StoredExtent extent;
    if (!sequential_) {
      BALLAST_TRY(extent.offset, fields_.take_le<uint64_t>("an offset"));
    }
    BALLAST_TRY(extent.length, fields_.take_le<uint64_t>("a payload's length"));
    if (sequential_) extent.offset = fields_.position();

    set_requires_grad(info, flag, record_offset);
    BALLAST_TRY(const bool type_is_known, set_dtype(info, tag, record_offset));
    BALLAST_TRY(const bool size_fits, check_size(info, extent, type_is_known, record_offset));
    BALLAST_TRY(const bool in_file, check_extent(info, extent, record_offset));
    if (sequential_ && !in_file) return fields_.ends_inside("the payload of " + shown(info.name));
    if (sequential_) fields_.skip(extent.length);
    info.byte_size = extent.length;
    // Findings are being collected: nothing must ever be read by a wrong extent.
    if (!size_fits || !in_file) extent = {.offset = begin_, .length = 0};
    contents_.tensors.push_back(std::move(info));
    contents_.extents.push_back(extent);
    return {};
  }

  Result<std::string> parse_name() {
    const uint64_t offset = fields_.position();
    BALLAST_TRY(const uint32_t length, fields_.take_le<uint32_t>("a name's length"));
    BALLAST_TRY(const ByteSpan bytes, fields_.take(length, "a name"));
    constexpr size_t kInside = 15;  // characters that need no allocation
    if (length > kInside) BALLAST_CHECK(charge(length + kHeapBlock));
    std::string name(as_text(bytes));
    // Not even findings could name this tensor.
    if (!is_valid_utf8(name)) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: byte {}: the name of tensor {} is not UTF-8",
                                                         source_.name(), offset, contents_.tensors.size()));
    }
    if (kind_.is_checkpoint && !is_ascii(name)) {
      BALLAST_CHECK(findings_.error("name", offset, name,
                                    fmt::format("{}: byte {}: tensor name {} is not ASCII, which checkpoints must be; "
                                                "gpt.rs refuses the file too",
                                                source_.name(), offset, shown(name))));
    }
    return name;
  }

  // True when the id is stored as 0.
  Result<bool> parse_id(const std::string& name) {
    const uint64_t offset = fields_.position();
    BALLAST_TRY(const ByteSpan bytes, fields_.take(sizeof(Id128), "a base id"));
    Id128 stored;
    std::ranges::copy(bytes, stored.bytes.begin());
    if (stored.is_zero()) return true;
    const Id128 expected = base_param_id(name);
    if (stored == expected) return false;
    BALLAST_CHECK(findings_.error(
        "base_id", offset, name,
        fmt::format("{}: tensor {}: the stored base id is {}, its name gives {}; the name or the id was changed",
                    source_.name(), shown(name), stored.to_number_hex(), expected.to_number_hex())));
    return false;
  }

  Status parse_shape(TensorInfo& info) {
    BALLAST_TRY(const uint32_t rank, fields_.take_le<uint32_t>("a rank"));
    const uint64_t rank_offset = fields_.position() - sizeof(uint32_t);
    BALLAST_TRY(const ByteSpan bytes, fields_.take(uint64_t{rank} * sizeof(uint64_t), "a shape"));
    constexpr uint32_t kInside = 4;  // dimensions that Shape holds without an allocation
    if (rank > kInside) BALLAST_CHECK(charge(bytes.size() + kHeapBlock));
    info.shape = load_gptrs_shape(bytes);
    if (rank == 0) {
      findings_.warning("rank_0", rank_offset, info.name, [&] {
        return fmt::format("{}: tensor {} has no dimensions; gpt.rs dies when it reads such a tensor", source_.name(),
                           shown(info.name));
      });
    }
    return {};
  }

  void set_requires_grad(TensorInfo& info, uint8_t flag, uint64_t offset) {
    info.requires_grad = flag != 0;
    if (flag <= 1) return;
    findings_.warning("requires_grad", offset, info.name, [&] {
      return fmt::format("{}: tensor {}: the requires_grad byte is {}, taken as 1", source_.name(), shown(info.name),
                         flag);
    });
  }

  Result<bool> set_dtype(TensorInfo& info, uint32_t tag, uint64_t offset) {
    if (const auto dtype = gptrs_dtype(tag)) {
      info.dtype = *dtype;
      return true;
    }
    info.dtype = DType::kOpaque;
    BALLAST_CHECK(findings_.error("dtype", offset, info.name,
                                  fmt::format("{}: tensor {} has dtype tag {}; the tags are 0 (f32), 1 (f16), 2 "
                                              "(bf16) and 3 (i32)",
                                              source_.name(), shown(info.name), tag)));
    return false;
  }

  Result<bool> check_size(const TensorInfo& info, const StoredExtent& extent, bool type_is_known, uint64_t offset) {
    if (!type_is_known) return false;
    const auto expected = packed_size(info.shape, info.dtype);
    if (expected == extent.length) return true;
    BALLAST_CHECK(findings_.error(
        "size", offset, info.name,
        expected ? fmt::format("{}: tensor {}: {} bytes are stored, shape {} of {} needs {}", source_.name(),
                               shown(info.name), extent.length, shown(info.shape), dtype_name(info.dtype), *expected)
                 : fmt::format("{}: tensor {}: shape {} of {} has 2^64 bytes or more", source_.name(), shown(info.name),
                               shown(info.shape), dtype_name(info.dtype))));
    return false;
  }

  Result<bool> check_extent(const TensorInfo& info, const StoredExtent& extent, uint64_t offset) {
    if (!sequential_ && extent.offset < end_) {
      BALLAST_CHECK(findings_.error("offset", offset, info.name,
                                    fmt::format("{}: tensor {} claims to begin at byte {}, inside the header, "
                                                "which ends at {}",
                                                source_.name(), shown(info.name), extent.offset, end_)));
      return false;
    }
    if (range_fits(extent.offset, extent.length, source_.size())) return true;
    BALLAST_CHECK(
        findings_.error("truncated", source_.size(), info.name,
                        fmt::format("{}: tensor {} has {} bytes from byte {}, but the file has only {}; "
                                    "it was probably cut short",
                                    source_.name(), shown(info.name), extent.length, extent.offset, source_.size())));
    return false;
  }

  void report_rest() {
    const char* what = sequential_ ? "trailing_bytes" : "index_trailing_bytes";
    findings_.warning(what, fields_.position(), "", [&] {
      return fmt::format("{}: {} bytes follow the last {}", source_.name(), fields_.remaining(),
                         sequential_ ? "tensor" : "entry of the index");
    });
  }

  // In the order of the index, each at the first multiple of 64 behind the one before it. A file whose payloads happen
  // to be multiples of 64 long is the same either way.
  bool payloads_are_aligned() const {
    uint64_t end = end_;
    bool any_gap = false;
    for (size_t i = 0; i < contents_.extents.size(); ++i) {
      const StoredExtent& extent = contents_.extents[i];
      // A tensor that shares the bytes of an earlier one has no place of its own.
      if (extent.offset < end && tie_number(contents_.tensors[i].stored_form())) continue;
      const uint64_t begin = aligned_up(end);
      if (extent.offset != begin) return false;
      any_gap = any_gap || begin != end;
      end = begin + extent.length;
    }
    return any_gap;
  }

  // Zeros up to the next multiple of 64: what a later generation of gpt.rs puts between payloads.
  Result<bool> is_padding(uint64_t begin, uint64_t end) const {
    if (end <= begin || end != aligned_up(begin)) return false;
    BALLAST_TRY(const ByteVector bytes, read_bytes(source_, begin, end - begin));
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  }

  // Payloads in the order of the index, no holes but padding, no overlap, nothing behind them: what all writers of
  // gpt.rs do and no reader of it checks.
  Status check_coverage() {
    const auto& extents = contents_.extents;
    std::vector<uint32_t> order = all_positions(extents.size());
    const auto by_offset = [&](uint32_t a, uint32_t b) {
      return std::pair(extents[a].offset, extents[a].length) < std::pair(extents[b].offset, extents[b].length);
    };
    std::erase_if(order, [&](uint32_t i) { return extents[i].length == 0; });
    sort_positions(order, by_offset);
    uint64_t covered = end_;
    uint32_t last = 0;
    bool in_order = true;
    for (size_t position = 0; position < order.size(); ++position) {
      const uint32_t i = order[position];
      // A tensor that shares the bytes of an earlier one has no place of its own.
      if (position > 0 && share_payload(extents[order[position - 1]], extents[i])) {
        note_tie(i, order[position - 1]);
        continue;
      }
      in_order = in_order && i >= last;
      last = i;
      BALLAST_CHECK(check_neighbour(i, covered));
      covered = std::max(covered, extents[i].offset + extents[i].length);
    }
    if (!in_order) {
      findings_.note("payload_order", end_, "",
                     [&] { return source_.name() + ": the payloads do not stand in the order of the index"; });
    }
    if (covered == source_.size()) return {};
    // An empty tensor at the end has its place behind padding, too.
    const bool ends_empty = !extents.empty() && extents.back().length == 0 && extents.back().offset == source_.size();
    BALLAST_TRY(const bool padding, ends_empty ? is_padding(covered, source_.size()) : Result<bool>(false));
    if (padding) return {};
    findings_.warning("trailing_bytes", covered, "", [&] {
      return fmt::format("{}: {} bytes follow the last tensor", source_.name(), source_.size() - covered);
    });
    return {};
  }

  void note_tie(uint32_t index, uint32_t before) {
    const StoredExtent& extent = contents_.extents[index];
    findings_.note("tied", extent.offset, contents_.tensors[index].name, [&] {
      return fmt::format("{}: tensor {} lies at the same {} bytes as {}; that is how tied weights are stored once",
                         source_.name(), shown(contents_.tensors[index].name), extent.length,
                         shown(contents_.tensors[before].name));
    });
  }

  Status check_neighbour(uint32_t index, uint64_t covered) {
    const uint64_t offset = contents_.extents[index].offset;
    const std::string& name = contents_.tensors[index].name;
    if (offset == covered) return {};
    BALLAST_TRY(const bool padding, is_padding(covered, offset));
    if (padding) return {};
    const bool overlap = offset < covered;
    findings_.warning(overlap ? "overlap" : "hole", std::min(offset, covered), name, [&] {
      return overlap ? fmt::format("{}: tensor {} begins at byte {}, before the one in front of it ends, at {}",
                                   source_.name(), shown(name), offset, covered)
                     : fmt::format("{}: {} unused bytes stand in front of tensor {}, which begins at byte {}",
                                   source_.name(), offset - covered, shown(name), offset);
    });
    return {};
  }

  // Of namesakes the last one counts, as for gpt.rs.
  void drop_namesakes() {
    auto& tensors = contents_.tensors;
    const std::vector<size_t> shadowed = find_shadowed_names(tensors);
    if (shadowed.empty()) return;
    size_t kept = 0;
    auto next = shadowed.begin();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (next != shadowed.end() && *next == i) {
        ++next;
        findings_.warning("duplicate_name", contents_.extents[i].offset, tensors[i].name, [&] {
          return fmt::format(
              "{}: tensor name {} stands again further down; gpt.rs uses the last, so this one is "
              "left out",
              source_.name(), shown(tensors[i].name));
        });
        continue;
      }
      if (kept != i) {
        tensors[kept] = std::move(tensors[i]);
        contents_.extents[kept] = contents_.extents[i];
      }
      ++kept;
    }
    tensors.resize(kept);
    contents_.extents.resize(kept);
  }

  const ByteSource& source_;
  const GptrsKind& kind_;
  const bool sequential_;
  const uint64_t begin_;
  const uint64_t end_;  // of the index; of the file where there is none
  Findings& findings_;
  GptrsFields fields_;
  GptrsContents contents_;
  TensorInfo zero_id_;
  uint64_t memory_ = 0;
};

}  // namespace

std::optional<DType> gptrs_dtype(uint32_t tag) {
  return tag < kTags.size() ? std::optional<DType>(kTags[tag]) : std::nullopt;
}

std::optional<uint32_t> gptrs_dtype_tag(DType dtype) {
  const auto found = std::ranges::find(kTags, dtype);
  if (found == kTags.end()) return std::nullopt;
  return static_cast<uint32_t>(found - kTags.begin());
}

SniffMatch sniff_gptrs(const GptrsKind& kind, const SniffInput& input) {
  return as_text(input.head).starts_with(kind.magic) ? SniffMatch::kCertain : SniffMatch::kNo;
}

Result<uint32_t> read_gptrs_u32(const ByteSource& source, uint64_t offset, std::string_view what) {
  return GptrsFields(source, std::min(offset, source.size()), source.size(), sizeof(uint32_t)).take_le<uint32_t>(what);
}

Result<uint32_t> read_gptrs_version(const ByteSource& source, const GptrsKind& kind) {
  const uint64_t magic_size = std::min<uint64_t>(kind.magic.size(), source.size());
  BALLAST_TRY(const ByteVector magic, read_bytes(source, 0, magic_size));
  if (as_text(magic) != kind.magic) return not_the_magic(source, kind);
  BALLAST_TRY(const uint32_t version, read_gptrs_u32(source, magic_size, "the version"));
  if (version == kGptrsSequential || version == kGptrsIndexed) return version;
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: {} version {} is not known; versions 1 and 2 are. The file may come from a newer "
                                "gpt.rs",
                                source.name(), kind.magic, version));
}

Result<GptrsContents> parse_gptrs_contents(const ByteSource& source, const GptrsKind& kind, uint32_t version,
                                           uint64_t offset, Findings& findings) {
  if (version == kGptrsSequential) {
    return ContentsParser(source, kind, version, offset, source.size(), findings).parse();
  }
  BALLAST_TRY(const uint32_t length, read_gptrs_u32(source, offset, "the index's length"));
  const uint64_t begin = offset + sizeof(uint32_t);
  if (!range_fits(begin, length, source.size())) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: the index claims {} bytes but only {} follow; the file was "
                                                       "probably cut short",
                                                       source.name(), length, source.size() - begin));
  }
  BALLAST_CHECK(refuse_early_gptrs_index(source, kind, begin, begin + length));
  return ContentsParser(source, kind, version, begin, begin + length, findings).parse();
}

}  // namespace ballast
