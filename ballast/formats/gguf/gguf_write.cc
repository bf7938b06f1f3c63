#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ballast/base/checked.h"
#include "ballast/base/hash.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"
#include "ballast/formats/payload_order.h"
#include "ballast/formats/shards.h"

namespace ballast {

namespace {

bool has_gguf_type(DType dtype) { return gguf_type(dtype).has_value(); }

// ---------------------------------------------------------------- what is written

// How one file, or each file of a set, is spelled.
struct GgufSpelling {
  GgufForm form;
  uint32_t version = 3;
  uint64_t alignment = kGgufDefaultAlignment;
};

// Null where there is none, or one that no reader would accept.
const MetaEntry* find_alignment(const Description& description) {
  const auto found = std::ranges::find(description.metadata, kGgufAlignmentKey, &MetaEntry::key);
  if (found == description.metadata.end()) return nullptr;
  const auto* alignment = std::get_if<uint64_t>(&found->value);
  const bool usable = alignment != nullptr && *alignment <= UINT32_MAX && is_gguf_alignment(*alignment);
  return usable ? &*found : nullptr;
}

GgufSpelling choose_spelling(const Description& description, const WriteOptions& options) {
  GgufSpelling spelling;
  if (description.format == kGgufDriver.name && options.keep_form) {
    spelling.form = GgufForm::from_text(description.stored_form);
    if (description.version == "2") spelling.version = 2;
  }
  if (!options.target.empty()) {  // what every reader takes; the types of values are more than spelling
    spelling.form = {ByteOrder::kLittle, GgufForm::Tail::kDefault, std::move(spelling.form.types)};
    spelling.version = 3;
  }
  const auto swappable = [](const TensorInfo& tensor) { return can_swap_byte_order(tensor.dtype); };
  if (!std::ranges::all_of(description.tensors, swappable)) spelling.form.order = ByteOrder::kLittle;
  if (const MetaEntry* entry = find_alignment(description)) spelling.alignment = std::get<uint64_t>(entry->value);
  return spelling;
}

// What a reader would refuse, or take for something else, is left out and travels in the origin.
std::vector<MetaEntry> writable_metadata(const Description& description) {
  const auto split = find_gguf_split(description, "");
  const bool keeps_split = split && split->count <= 1;
  const MetaEntry* alignment = find_alignment(description);
  std::set<std::string_view> seen;
  if (description.origin) seen.insert(kOriginKey);
  std::vector<MetaEntry> entries;
  for (const MetaEntry& entry : description.metadata) {
    if (entry.key.empty() || (is_gguf_split_key(entry.key) && !keeps_split)) continue;
    if (entry.key == kGgufAlignmentKey && &entry != alignment) continue;
    if (seen.insert(entry.key).second) entries.push_back(entry);
  }
  if (description.origin) entries.push_back({std::string(kOriginKey), *description.origin});
  return entries;
}

// ---------------------------------------------------------------- the header

class GgufEncoder {
 public:
  explicit GgufEncoder(const GgufSpelling& spelling) : spelling_(spelling) {}

  void add_head(uint64_t tensors, uint64_t pairs) {
    out_ += kGgufMagic;
    add_number(spelling_.version);
    add_number(tensors);
    add_number(pairs);
  }

  void add_pair(const MetaEntry& entry) {
    const auto found = spelling_.form.types.find(entry.key);
    const bool kept = found != spelling_.form.types.end() && holds_exactly(found->second, entry.value);
    const MetaType type = kept ? found->second : default_gguf_type(entry.value);
    add_text(entry.key);
    add_number(static_cast<uint32_t>(type));
    add_value(type, entry.value);
  }

  void add_row(const TensorInfo& tensor, uint64_t offset) {
    add_text(tensor.name);
    const std::vector<uint64_t> dims = stored_dims(tensor.shape);
    add_number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) add_number(dim);
    add_number(gguf_type(tensor.dtype).value_or(0));
    add_number(offset);
  }

  void pad() { out_.resize(static_cast<size_t>(*checked_align_up(out_.size(), spelling_.alignment)), '\0'); }

  std::string take() { return std::move(out_); }

 private:
  template <std::unsigned_integral T>
  void add_number(T value) {
    append_le(out_, spelling_.form.order == ByteOrder::kBig ? byte_swapped(value) : value);
  }

  void add_text(std::string_view text) {
    add_number<uint64_t>(text.size());
    out_ += text;
  }

  void add_value(MetaType type, const MetaValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return add_text(*text);
    if (const auto* array = std::get_if<MetaArray>(&value)) {
      add_number(static_cast<uint32_t>(array->element()));
      add_number(array->size());
      out_ += array->encoded_as(spelling_.form.order);
      return;
    }
    const uint64_t bits = gguf_bits(type, value);
    switch (meta_type_size(type)) {
      case 1: return add_number(static_cast<uint8_t>(bits));
      case 2: return add_number(static_cast<uint16_t>(bits));
      case 4: return add_number(static_cast<uint32_t>(bits));
      default: return add_number(bits);
    }
  }

  // Innermost first; what exceeds the rank of the format is folded into the outermost dimension.
  static std::vector<uint64_t> stored_dims(const Shape& shape) {
    std::vector<uint64_t> dims(shape.dims().rbegin(), shape.dims().rend());
    while (dims.size() > kGgufMaxRank) {
      const uint64_t outermost = dims.back();
      dims.pop_back();
      dims.back() *= outermost;
    }
    return dims;
  }

  const GgufSpelling& spelling_;
  std::string out_;
};

// ---------------------------------------------------------------- the layout

struct GgufPart {
  std::string header;  // with its padding
  std::vector<size_t> members;
  std::vector<uint64_t> padding;  // behind each of them
  uint64_t size = 0;
};

Status check_gguf_tensor(const TensorInfo& tensor) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\": {}", tensor.name, why));
  };
  if (!has_gguf_type(tensor.dtype)) return refuse(fmt::format("gguf has no dtype {}", tensor.type_name()));
  if (tensor.name.size() > kGgufMaxName) return refuse(fmt::format("its name exceeds {} bytes", kGgufMaxName));
  if (!is_valid_utf8(tensor.name)) return refuse("its name is not UTF-8");
  if (packed_size(tensor.shape, tensor.dtype) != tensor.byte_size) {
    return refuse(fmt::format("{} bytes do not fit shape {}", tensor.byte_size, tensor.shape.to_string()));
  }
  return {};
}

Result<GgufPart> plan_part(const Description& description, std::vector<size_t> members,
                           const std::vector<MetaEntry>& metadata, const GgufSpelling& spelling) {
  GgufPart part;
  GgufEncoder encoder(spelling);
  encoder.add_head(members.size(), metadata.size());
  for (const MetaEntry& entry : metadata) encoder.add_pair(entry);
  uint64_t at = 0;
  for (const size_t index : members) {
    const TensorInfo& tensor = description.tensors[index];
    BALLAST_CHECK(check_gguf_tensor(tensor));
    encoder.add_row(tensor, at);
    const auto end = checked_add(at, tensor.byte_size);
    const auto padded = end ? checked_align_up(*end, spelling.alignment) : std::nullopt;
    if (!padded) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
    part.padding.push_back(*padded - *end);
    at = *padded;
  }
  if (!members.empty() || spelling.form.tail == GgufForm::Tail::kPadded) encoder.pad();
  if (!members.empty() && spelling.form.tail == GgufForm::Tail::kBare) at -= std::exchange(part.padding.back(), 0);
  part.header = encoder.take();
  part.members = std::move(members);
  const auto size = checked_add(part.header.size(), at);
  if (!size) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
  part.size = *size;
  return part;
}

// Passes everything on and gives its digest.
class PartDigestSink final : public ByteSink {
 public:
  explicit PartDigestSink(ByteSink& next) : next_(next) {}

  Status write(ByteSpan bytes) override {
    hasher_.update(bytes);
    return next_.write(bytes);
  }
  // By their number, so that a preview, whose payloads are zeros that nobody writes, costs nothing.
  Status write_zeros(uint64_t count) override {
    hasher_.update_le(count);
    return next_.write_zeros(count);
  }
  Status patch(uint64_t, ByteSpan) override {
    return make_error(ErrorCode::kInvalidArgument, "a digest cannot take back what it has seen");
  }
  uint64_t position() const override { return next_.position(); }
  std::string finish() const { return to_hex(hasher_.finish()); }

 private:
  ByteSink& next_;
  Blake3 hasher_;
};

// The bond stands in front of all other pairs, so that it is known where: magic, version and two counts, then for each
// of the two its key, its type and its text, both texts with their lengths.
constexpr size_t kDigestTextSize = 2 * sizeof(Digest);
constexpr size_t before_text(std::string_view key) { return 8 + key.size() + 4 + 8; }
constexpr size_t kDigestAt = 4 + 4 + 8 + 8 + before_text(kGgufSplitDigestKey);
constexpr size_t kPreviousAt = kDigestAt + kDigestTextSize + before_text(kGgufSplitPreviousKey);

std::vector<MetaEntry> unknown_bond(bool is_first) {
  const std::string unknown(kDigestTextSize, '0');
  std::vector<MetaEntry> bond = {{std::string(kGgufSplitDigestKey), unknown}};
  if (!is_first) bond.push_back({std::string(kGgufSplitPreviousKey), unknown});
  return bond;
}

class GgufWrite final : public PlannedWrite {
 public:
  GgufWrite(std::vector<GgufPart> parts, std::vector<std::string> names, ByteOrder order, bool bound = false)
      : parts_(std::move(parts)), form_{.big_endian = order == ByteOrder::kBig, .fortran_order = false}, bound_(bound) {
    for (size_t i = 0; i < parts_.size(); ++i) files_.push_back({std::move(names[i]), parts_[i].size});
  }

  const std::vector<PlannedFile>& files() const override { return files_; }

  Status emit(size_t file_index, ByteSink& sink, TensorFeed& feed) const override {
    const GgufPart& part = parts_[file_index];
    if (!bound_) return emit_part(part, part.header, sink, feed);
    const uint64_t start = sink.position();
    std::string header = part.header;
    if (file_index > 0) header.replace(kPreviousAt, kDigestTextSize, digest_before_);
    PartDigestSink digest(sink);
    BALLAST_CHECK(emit_part(part, header, digest, feed));
    digest_before_ = digest.finish();
    return sink.patch(start + kDigestAt, as_bytes(digest_before_));
  }
  bool patches() const override { return bound_; }

 private:
  Status emit_part(const GgufPart& part, const std::string& header, ByteSink& sink, TensorFeed& feed) const {
    BALLAST_CHECK(sink.write_text(header));
    for (size_t i = 0; i < part.members.size(); ++i) {
      BALLAST_CHECK(feed.emit(part.members[i], form_, sink));
      BALLAST_CHECK(sink.write_zeros(part.padding[i]));
    }
    return {};
  }

  std::vector<GgufPart> parts_;
  PayloadForm form_;
  bool bound_;
  std::vector<PlannedFile> files_;
  mutable std::string digest_before_;  // of the part emitted last
};

Result<std::unique_ptr<PlannedWrite>> plan_parts(const WriteRequest& request, std::vector<std::vector<size_t>> members,
                                                 GgufSpelling spelling) {
  std::vector<GgufPart> parts;
  std::vector<std::string> names;
  std::vector<MetaEntry> metadata = writable_metadata(request.description);
  std::erase_if(metadata, [](const MetaEntry& entry) { return is_gguf_split_key(entry.key); });
  GgufSplit split{.number = 0, .count = members.size(), .tensors = request.description.tensors.size()};
  if (split.count > UINT16_MAX) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} parts; gguf counts up to {}: choose larger files", split.count, UINT16_MAX),
                      Remedy::kChooseShardSize);
  }
  spelling.form.tail = GgufForm::Tail::kDefault;
  const bool bound = request.generation != 0;
  for (; split.number < split.count; ++split.number) {
    add_gguf_split_keys(split, metadata, spelling.form);
    if (bound) {
      const auto bond = unknown_bond(split.number == 0);
      metadata.insert(metadata.begin(), bond.begin(), bond.end());
    }
    BALLAST_TRY(GgufPart part, plan_part(request.description, std::move(members[static_cast<size_t>(split.number)]),
                                         metadata, spelling));
    parts.push_back(std::move(part));
    names.push_back(gguf_part_name(request.file_name, split));
    // The rest stands in the first part alone, the alignment too.
    metadata.clear();
    spelling.alignment = kGgufDefaultAlignment;
  }
  return std::unique_ptr<PlannedWrite>(
      std::make_unique<GgufWrite>(std::move(parts), std::move(names), spelling.form.order, bound));
}

}  // namespace

std::vector<Loss> find_gguf_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  for (const TensorInfo& tensor : description.tensors) {
    if (!has_gguf_type(tensor.dtype)) {
      losses.push_back(unsupported_dtype_loss(tensor, kGgufDriver.name, has_gguf_type));
    }
    if (tensor.name.size() > kGgufMaxName) {
      Loss& loss = losses.emplace_back();
      loss.tensor = tensor.name;
      loss.what =
          fmt::format("its name has {} bytes, gguf allows {}: give it a shorter one", tensor.name.size(), kGgufMaxName);
      loss.remedies = Remedy::kRenameTensors;
    }
    if (tensor.shape.rank() > kGgufMaxRank) {
      Loss& loss = losses.emplace_back();
      loss.tensor = tensor.name;
      loss.what =
          fmt::format("{} dimensions, gguf has {}; the outermost would become one", tensor.shape.rank(), kGgufMaxRank);
      loss.acceptable = true;
    }
  }
  return losses;
}

Result<std::unique_ptr<PlannedWrite>> plan_gguf_write(const WriteRequest& request) {
  const Description& description = request.description;
  const GgufSpelling spelling = choose_spelling(description, request.options);
  if (request.options.shard_size != 0) {
    auto members = assign_shards(description.tensors, request.options.shard_size);
    if (members.size() > 1) return plan_parts(request, std::move(members), spelling);
  }
  std::vector<size_t> all(description.tensors.size());
  std::iota(all.begin(), all.end(), size_t{0});
  BALLAST_TRY(GgufPart part, plan_part(description, std::move(all), writable_metadata(description), spelling));
  std::vector<GgufPart> parts;
  parts.push_back(std::move(part));
  return std::unique_ptr<PlannedWrite>(
      std::make_unique<GgufWrite>(std::move(parts), std::vector<std::string>{""}, spelling.form.order));
}

}  // namespace ballast
