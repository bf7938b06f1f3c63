#include "ballast/formats/burnpack/burnpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ballast/base/checked.h"
#include "ballast/base/sort_positions.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/name_index.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// ---------------------------------------------------------------- header

// Where the metadata ends.
Result<uint64_t> read_header(const ByteSource& source, Findings& findings) {
  if (source.size() < kBurnHeaderSize) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: {} bytes are too few for a Burnpack file; it was probably cut short",
                                  source.name(), source.size()));
  }
  std::array<std::byte, kBurnHeaderSize> header;
  BALLAST_CHECK(source.read_at(0, header));
  const std::string_view magic = as_text(ByteSpan(header).first(kBurnMagic.size()));
  if (magic != kBurnMagic) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: begins with bytes {}, a Burnpack file with \"{}\"",
                                                       source.name(), to_hex(as_bytes(magic)), kBurnMagic));
  }
  const auto version = load_le<uint16_t>(header.data() + 4);
  if (version > kBurnVersion) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: Burnpack version {}; this program reads up to version {}", source.name(),
                                  version, kBurnVersion));
  }
  if (version != kBurnVersion) {
    findings.note("version", 4, "", [&] {
      return fmt::format("{}: version {}, which Burn reads but no Burn has written", source.name(), version);
    });
  }
  const uint64_t size = load_le<uint32_t>(header.data() + 6);
  if (size > kBurnMaxMetadata) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: the metadata claims {} bytes; Burnpack allows {}",
                                                           source.name(), size, kBurnMaxMetadata));
  }
  if (size > source.size() - kBurnHeaderSize) {
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format("{}: the metadata claims {} bytes but only {} follow; the file was probably cut short",
                    source.name(), size, source.size() - kBurnHeaderSize));
  }
  return kBurnHeaderSize + size;
}

// ---------------------------------------------------------------- order

// Puts values[order[i]] at position i, within the memory that is there: an index may be most of a file.
template <typename T>
void permute(std::vector<T>& values, std::vector<uint32_t> order) {
  for (uint32_t start = 0; start < order.size(); ++start) {
    if (order[start] == start) continue;
    T first = std::move(values[start]);
    uint32_t at = start;
    while (order[at] != start) {
      values[at] = std::move(values[order[at]]);
      at = std::exchange(order[at], at);
    }
    values[at] = std::move(first);
    order[at] = at;
  }
}

// Tensors come in the order of their payloads. Empty ones at the same place keep the order of the metadata: nothing
// tells in which order their writer had them.
void sort_by_place(BurnMetadata& metadata) {
  const auto place = [&](uint32_t i) { return std::pair(metadata.extents[i].offset, metadata.extents[i].length); };
  std::vector<uint32_t> order = all_positions(metadata.extents.size());
  if (!sort_positions(order, [&](uint32_t a, uint32_t b) { return place(a) < place(b); })) return;
  permute(metadata.description.tensors, order);
  permute(metadata.header_offsets, order);
  permute(metadata.extents, std::move(order));
}

// The last of two namesakes counts, as in Burn.
void drop_duplicates(const ByteSource& source, BurnMetadata& metadata, Findings& findings) {
  auto& tensors = metadata.description.tensors;
  if (find_duplicate_names(tensors).empty()) return;
  const std::vector<uint32_t> order = positions_by_name(tensors);
  std::vector<bool> dropped(tensors.size(), false);
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t earlier = order[i - 1];
    if (tensors[earlier].name != tensors[order[i]].name) continue;
    dropped[earlier] = true;
    findings.warning("duplicate_name", metadata.header_offsets[earlier], tensors[earlier].name, [&] {
      return fmt::format("{}: tensor name \"{}\" stands twice; the last one counts, this one cannot be reached",
                         source.name(), tensors[earlier].name);
    });
  }
  const auto keep = [&dropped](auto& values) {
    size_t position = 0;
    std::erase_if(values, [&](const auto&) { return dropped[position++]; });
  };
  keep(tensors);
  keep(metadata.extents);
  keep(metadata.header_offsets);
}

// ---------------------------------------------------------------- coverage

// Walks the payloads in order and reports what Burn takes in silence.
class CoverageCheck {
 public:
  CoverageCheck(const ByteSource& source, const BurnLayout& layout, Findings& findings)
      : source_(source), layout_(layout), findings_(findings) {}

  Status check(const BurnMetadata& metadata, uint64_t metadata_end) {
    if (findings_.collects()) BALLAST_CHECK(check_padding(metadata_end, layout_.data_start, ""));
    for (size_t i = 0; i < metadata.extents.size(); ++i) {
      const TensorInfo& tensor = metadata.description.tensors[i];
      BALLAST_CHECK(check_end(tensor, metadata.extents[i]));
      if (i > 0 && share_payload(metadata.extents[i - 1], metadata.extents[i])) {
        note_tie(tensor, metadata.description.tensors[i - 1], metadata.extents[i]);
        continue;
      }
      if (findings_.collects()) BALLAST_CHECK(check_begin(tensor, metadata.extents[i]));
      covered_ = std::max(covered_, metadata.extents[i].offset + metadata.extents[i].length);
    }
    check_file_end(metadata.extents.empty());
    return {};
  }

 private:
  uint64_t available() const { return source_.size() < layout_.data_start ? 0 : source_.size() - layout_.data_start; }
  uint64_t next_place() const {
    return layout_.unaligned ? covered_ : checked_align_up(covered_, kBurnAlignment).value_or(covered_);
  }

  Status check_end(const TensorInfo& tensor, const StoredExtent& extent) {
    const uint64_t end = extent.offset + extent.length;  // was read as one number
    if (source_.size() >= layout_.data_start && end <= available()) return {};
    const std::string hint =
        layout_.looks_cut
            ? " (Burn 0.19's unaligned layout would fit, but what follows the metadata looks like padding)"
            : "";
    return findings_.error(
        "truncated", source_.size(), tensor.name,
        fmt::format(
            "{}: tensor \"{}\" ends at byte {} of the data, which begins at {}, but the file has only {} bytes; "
            "it was probably cut short{}",
            source_.name(), tensor.name, end, layout_.data_start, source_.size(), hint));
  }

  Status check_begin(const TensorInfo& tensor, const StoredExtent& extent) {
    const uint64_t expected = next_place();
    const uint64_t at = checked_add(layout_.data_start, extent.offset).value_or(UINT64_MAX);
    if (extent.offset < covered_ && extent.length > 0) {
      findings_.warning("overlap", at, tensor.name, [&] {
        return fmt::format("{}: tensor \"{}\" begins at byte {} of the data, inside another that ends at {}",
                           source_.name(), tensor.name, extent.offset, covered_);
      });
    } else if (extent.offset > expected) {
      findings_.warning("hole", at, tensor.name, [&] {
        return fmt::format("{}: {} bytes before tensor \"{}\" belong to no tensor", source_.name(),
                           extent.offset - expected, tensor.name);
      });
    }
    if (!layout_.unaligned && extent.offset % kBurnAlignment != 0) {
      findings_.warning("misaligned", at, tensor.name, [&] {
        return fmt::format("{}: tensor \"{}\" begins at byte {}, not at a multiple of {}", source_.name(), tensor.name,
                           at, kBurnAlignment);
      });
    }
    constexpr uint64_t kBurnTensorLimit = 10 * kGiB;
    if (extent.length > kBurnTensorLimit) {
      findings_.warning("burn_limit", at, tensor.name, [&] {
        return fmt::format("{}: tensor \"{}\" has {} bytes; Burn refuses more than 10 GiB unless told otherwise",
                           source_.name(), tensor.name, extent.length);
      });
    }
    if (covered_ > available()) return {};
    return check_padding(layout_.data_start + covered_, layout_.data_start + std::min(expected, extent.offset),
                         tensor.name);
  }

  void note_tie(const TensorInfo& tensor, const TensorInfo& before, const StoredExtent& extent) {
    const uint64_t at = checked_add(layout_.data_start, extent.offset).value_or(UINT64_MAX);
    findings_.note("tied", at, tensor.name, [&] {
      return fmt::format(
          "{}: tensor \"{}\" lies at the same {} bytes as \"{}\"; that is how tied weights are stored "
          "once",
          source_.name(), tensor.name, extent.length, before.name);
    });
  }

  Status check_padding(uint64_t begin, uint64_t end, const std::string& tensor) {
    end = std::min(end, source_.size());
    if (begin >= end) return {};
    BALLAST_TRY(const ByteVector bytes, read_bytes(source_, begin, end - begin));
    const auto found = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
    if (found == bytes.end()) return {};
    const uint64_t at = begin + static_cast<uint64_t>(found - bytes.begin());
    findings_.warning("padding", at, tensor,
                      [&] { return fmt::format("{}: byte {} should be padding but is not zero", source_.name(), at); });
    return {};
  }

  void check_file_end(bool no_tensors) {
    if (no_tensors && source_.size() < layout_.data_start) {
      findings_.warning("padding", source_.size(), "", [&] {
        return fmt::format("{}: the file ends inside the padding behind its metadata", source_.name());
      });
    }
    if (covered_ < available()) {
      const uint64_t at = layout_.data_start + covered_;
      findings_.warning("trailing_bytes", at, "", [&] {
        return fmt::format("{}: {} bytes follow the last tensor", source_.name(), source_.size() - at);
      });
    }
    if (source_.size() > 100 * kGiB) {
      findings_.warning("burn_limit", 0, "", [&] {
        return fmt::format("{}: {} bytes; Burn up to 0.22 refuses files over 100 GiB, later ones over 500 GiB",
                           source_.name(), source_.size());
      });
    }
  }

  const ByteSource& source_;
  const BurnLayout& layout_;
  Findings& findings_;
  uint64_t covered_ = 0;  // end of the furthest tensor so far
};

// ---------------------------------------------------------------- generations

void note_old(const ByteSource& source, const BurnMetadata::Old& old, const char* code, std::string_view what,
              Findings& findings) {
  if (old.count == 0) return;
  findings.note(code, old.offset, old.first, [&] {
    return fmt::format("{}: {} {} (the first is \"{}\"); written for the target burn-0.23, it is read right",
                       source.name(), old.count, what, old.first);
  });
}

void note_generation(const ByteSource& source, const BurnMetadata& metadata, const BurnLayout& layout,
                     uint64_t metadata_end, Findings& findings) {
  if (layout.unaligned && !metadata.extents.empty()) {
    findings.note("layout_0.19", metadata_end, "", [&] {
      return fmt::format(
          "{}: tensors are not aligned, as Burn 0.19 wrote them; {}", source.name(),
          metadata_end % kBurnAlignment == 0
              ? "today's Burn reads this file only because its metadata happens to end at a multiple of 256"
              : "Burn 0.20 and later refuse this file or read it shifted, unless it is written for the target "
                "burn-0.23");
    });
  }
  note_old(source, metadata.text_bools, "old_bool",
           "truth-value tensor(s) typed as before Burn 0.21; today's Burn refuses the whole file", findings);
  note_old(source, metadata.misread_schemes, "old_quantisation",
           "quantised tensor(s) described as before Burn 0.22; today's Burn takes their scheme for another and refuses "
           "to load them",
           findings);
  note_old(source, metadata.harmless_schemes, "old_quantisation",
           "quantised tensor(s) described as before Burn 0.22; today's Burn reads them right, because one f32 scale is "
           "what it assumes",
           findings);
}

std::string find_producer(const Description& description, const BurnLayout& layout) {
  const auto text_of = [&](std::string_view key) -> std::string {
    for (const MetaEntry& entry : description.metadata) {
      const auto* text = std::get_if<std::string>(&entry.value);
      if (text != nullptr && entry.key == key) return *text;
    }
    return {};
  };
  const std::string producer = text_of("producer");
  const std::string version = text_of("version");
  if (!producer.empty()) return version.empty() ? producer : producer + " " + version;
  return layout.unaligned ? "burn 0.19" : "";
}

// ---------------------------------------------------------------- the driver

SniffMatch sniff_burnpack(const SniffInput& input) {
  return as_text(input.head).starts_with(kBurnMagic) ? SniffMatch::kCertain : SniffMatch::kNo;
}

Result<Archive> open_burnpack(const OpenRequest& request, Findings& findings) {
  const ByteSource& source = *request.source;
  BALLAST_TRY(const uint64_t metadata_end, read_header(source, findings));
  BALLAST_TRY(const BytesOrView cbor, BytesOrView::of(source, kBurnHeaderSize, metadata_end - kBurnHeaderSize));
  BALLAST_TRY(BurnMetadata metadata, parse_burn_metadata(source, cbor.bytes(), findings));
  drop_duplicates(source, metadata, findings);
  sort_by_place(metadata);
  mark_ties(metadata.description.tensors, metadata.extents);
  BALLAST_TRY(const BurnLayout layout, find_burn_layout(source, metadata_end, metadata));
  BALLAST_CHECK(CoverageCheck(source, layout, findings).check(metadata, metadata_end));
  note_generation(source, metadata, layout, metadata_end, findings);

  Description& description = metadata.description;
  description.format = kBurnpackReader.name;
  description.version = "1";
  description.producer = find_producer(description, layout);
  if (layout.unaligned) description.stored_form = kBurnUnaligned;
  for (StoredExtent& extent : metadata.extents) extent.offset += layout.data_start;
  return Archive(std::move(description), std::move(metadata.extents), {request.source});
}

constexpr std::string_view kBurnpackExtensions[] = {".bpk"};
constexpr auto kTargetNames = [] {
  std::array<std::string_view, kBurnTargets.size()> names;
  std::ranges::transform(kBurnTargets, names.begin(), &BurnTarget::name);
  return names;
}();

}  // namespace

constexpr FormatReader kBurnpackReader = {
    .name = "burnpack",
    .summary = "Burn's own format, of Burn 0.19 to 0.23",
    .extensions = kBurnpackExtensions,
    .sniff = sniff_burnpack,
    .open = open_burnpack,
};

constexpr FormatWriter kBurnpackWriter = {
    .find_losses = find_burnpack_losses,
    .plan_write = plan_burnpack,
    .targets = kTargetNames,
    .can_tie = true,
};

const FormatDriver kBurnpackDriver = {kBurnpackReader, kBurnpackWriter};

}  // namespace ballast
