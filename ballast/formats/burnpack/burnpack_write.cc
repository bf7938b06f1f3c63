// Writing Burnpack: the bytes that Burn's own writer makes of the same tensors.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/base/sort_positions.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/burnpack/burnpack.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/name_index.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

// How this request wants things spelled. A stored form counts where the wanted Burn understands it; without a wanted
// Burn every form counts, so that an old file can be written again as it was.
class Speller {
 public:
  Speller(const Description& description, const WriteOptions& options)
      : from_burn_(description.format == kBurnpackReader.name),
        keeps_forms_(options.keep_form && from_burn_),
        any_generation_(options.target.empty()) {
    const auto found = std::ranges::find(kBurnTargets, options.target, &BurnTarget::name);
    target_ = found == kBurnTargets.end() ? &kBurnTargets.back() : &*found;
    unaligned_ = keeps_forms_ && any_generation_ && description.stored_form == kBurnUnaligned;
  }

  const BurnTarget& target() const { return *target_; }
  bool unaligned() const { return unaligned_; }

  // What stands behind "Bool"; empty for the text alone.
  std::string_view bool_store(const TensorInfo& tensor) const {
    if (!target_->bool_stores || keeps(tensor, kBurnBoolText)) return {};
    if (tensor.dtype == DType::kBool32) return "U32";
    return keeps_forms_ && form_of(tensor) == kBurnBoolU8 ? "U8" : "Native";
  }

  // nullopt where the wanted Burn has no words for this scheme.
  std::optional<QuantSpelling> quant_spelling(const TensorInfo& tensor, const QuantScheme& scheme) const {
    if (!target_->scales) {
      return can_spell(scheme, QuantSpelling::k020) ? std::optional(QuantSpelling::k020) : std::nullopt;
    }
    const QuantSpelling stored = keeps_forms_ ? parse_quant_form(form_of(tensor)) : QuantSpelling::k022;
    const bool understood = any_generation_ || stored >= QuantSpelling::k022;
    return understood && can_spell(scheme, stored) ? stored : QuantSpelling::k022;
  }

  // Whether the wanted Burn takes these bytes for the same values. Up to 0.21 packed words run across lines, values are
  // filled up to whole words, and half a byte per value has no length; since 0.22 each line begins a word.
  bool packs_alike(const TensorInfo& tensor, const QuantScheme& scheme) const {
    if (any_generation_) return true;
    const bool from_old = from_burn_ && parse_quant_form(form_of(tensor)) < QuantSpelling::k022;
    const bool to_old = !target_->scales;
    if (from_old == to_old) return true;
    const auto length = quant_length(scheme, tensor.shape);
    if (!length) return false;
    if (scheme.store == QuantStore::kNative) {
      const bool whole_words = tensor.shape.element_count().value_or(1) % 4 == 0;
      return tensor.byte_size == length->by_line && (!to_old || (quant_value_bits(scheme.value) == 8 && whole_words));
    }
    // Only lines of the last axis were ever packed apart.
    return scheme.packed_axis != 0 || (tensor.byte_size == length->by_line && length->flat == length->by_line);
  }

 private:
  bool keeps(const TensorInfo& tensor, std::string_view form) const {
    return keeps_forms_ && any_generation_ && tensor.dtype == DType::kBool && form_of(tensor) == form;
  }
  static std::string_view form_of(const TensorInfo& tensor) { return form_without_tie(tensor.stored_form()); }

  bool from_burn_;
  bool keeps_forms_;
  bool any_generation_;
  bool unaligned_ = false;
  const BurnTarget* target_ = nullptr;
};

bool knows_dtype(DType dtype) {
  return !burn_dtype_name(dtype).empty() || dtype == DType::kBool || dtype == DType::kBool32 || dtype == DType::kQFloat;
}
bool knows_dtype_020(DType dtype) { return dtype != DType::kBool32 && knows_dtype(dtype); }

// Whether the wanted Burn has a word for the type of this tensor.
bool has_word(const Speller& speller, const TensorInfo& tensor) {
  if (tensor.dtype != DType::kQFloat) {
    return speller.target().bool_stores ? knows_dtype(tensor.dtype) : knows_dtype_020(tensor.dtype);
  }
  const auto scheme = parse_quant_scheme(tensor.scheme());
  return scheme && speller.quant_spelling(tensor, *scheme) && speller.packs_alike(tensor, *scheme);
}

// ---------------------------------------------------------------- metadata

// Entries in the order of their keys; of two with the same key, the last. Lists, and bytes that are no UTF-8, have no
// place here and travel in the origin.
using SortedEntries = std::vector<const MetaEntry*>;

bool has_place(const MetaEntry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value);
  if (!is_valid_utf8(entry.key) || (text != nullptr && !is_valid_utf8(*text))) return false;
  return !std::holds_alternative<MetaArray>(entry.value);
}

SortedEntries sort_entries(const Description& description, bool texts) {
  SortedEntries entries;
  for (const MetaEntry& entry : description.metadata) {
    if (has_place(entry) && std::holds_alternative<std::string>(entry.value) == texts) entries.push_back(&entry);
  }
  std::ranges::stable_sort(entries, {}, &MetaEntry::key);
  SortedEntries unique;
  for (const MetaEntry* entry : entries) {
    if (!unique.empty() && unique.back()->key == entry->key) unique.back() = entry;
    else unique.push_back(entry);
  }
  return unique;
}

void write_texts(CborWriter& cbor, const SortedEntries& entries) {
  cbor.text("metadata").map(entries.size());
  for (const MetaEntry* entry : entries) cbor.text(entry->key).text(std::get<std::string>(entry->value));
}

void write_scalar(CborWriter& cbor, const MetaValue& value) {
  cbor.map(1);
  if (const auto* number = std::get_if<int64_t>(&value)) cbor.text("Int").signed_number(*number);
  else if (const auto* natural = std::get_if<uint64_t>(&value)) cbor.text("UInt").unsigned_number(*natural);
  else if (const auto* real = std::get_if<double>(&value)) cbor.text("Float").real(*real);
  else if (const auto* truth = std::get_if<bool>(&value)) cbor.text("Bool").boolean(*truth);
}

void write_scalars(CborWriter& cbor, const SortedEntries& entries) {
  cbor.text("scalars").map(entries.size());
  for (const MetaEntry* entry : entries) {
    cbor.text(entry->key);
    write_scalar(cbor, entry->value);
  }
}

// ---------------------------------------------------------------- tensors

struct Place {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<std::vector<Place>> place_tensors(const std::vector<TensorInfo>& tensors, std::span<const uint32_t> ties,
                                         bool unaligned) {
  std::vector<Place> places;
  places.reserve(tensors.size());
  std::optional<uint64_t> at = 0;
  for (const TensorInfo& tensor : tensors) {
    if (const size_t owner = payload_owner(ties, places.size()); owner != places.size()) {
      places.push_back(places[owner]);
      continue;
    }
    if (!unaligned) at = checked_align_up(*at, kBurnAlignment);
    const auto end = at ? checked_add(*at, tensor.byte_size) : std::nullopt;
    if (!end) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
    places.push_back({*at, *end});
    at = end;
  }
  return places;
}

void write_dtype(CborWriter& cbor, const Speller& speller, const TensorInfo& tensor) {
  if (tensor.dtype == DType::kQFloat) {
    const QuantScheme scheme = *parse_quant_scheme(tensor.scheme());
    cbor.map(1).text("QFloat");
    write_quant_scheme(cbor, scheme, *speller.quant_spelling(tensor, scheme));
  } else if (tensor.dtype == DType::kBool || tensor.dtype == DType::kBool32) {
    const std::string_view store = speller.bool_store(tensor);
    if (store.empty()) cbor.text("Bool");
    else cbor.map(1).text("Bool").text(store);
  } else {
    cbor.text(burn_dtype_name(tensor.dtype));
  }
}

Status check_tensor(const Speller& speller, const TensorInfo& tensor) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\": {}", tensor.name, why));
  };
  if (!has_word(speller, tensor)) {
    return refuse(fmt::format("dtype {} cannot be written for {}", tensor.type_name(), speller.target().name));
  }
  if (!is_valid_utf8(tensor.name)) return refuse("its name is not UTF-8");
  if (tensor.shape.rank() > kBurnMaxRank) return refuse(fmt::format("it has more than {} dimensions", kBurnMaxRank));
  if (has_fixed_size(tensor.dtype) && packed_size(tensor.shape, tensor.dtype) != tensor.byte_size) {
    return refuse(fmt::format("{} bytes do not fit shape {}", tensor.byte_size, tensor.shape.to_string()));
  }
  return {};
}

Status write_tensor(CborWriter& cbor, const Speller& speller, const TensorInfo& tensor, const Place& place) {
  BALLAST_CHECK(check_tensor(speller, tensor));
  cbor.text(tensor.name).map(tensor.param_id ? 4 : 3).text("dtype");
  write_dtype(cbor, speller, tensor);
  cbor.text("shape").array(tensor.shape.rank());
  for (const uint64_t dim : tensor.shape.dims()) cbor.unsigned_number(dim);
  cbor.text("data_offsets").array(2).unsigned_number(place.begin).unsigned_number(place.end);
  if (tensor.param_id) cbor.text("param_id").unsigned_number(*tensor.param_id);
  return {};
}

Result<std::string> make_metadata(const Description& description, const Speller& speller,
                                  const std::vector<Place>& places) {
  const auto& tensors = description.tensors;
  const std::vector<uint32_t> by_name = positions_by_name(tensors);

  SortedEntries texts = sort_entries(description, true);
  const SortedEntries scalars = sort_entries(description, false);
  const MetaEntry origin{std::string(kOriginKey), description.origin.value_or("")};
  if (description.origin) {
    texts.insert(std::ranges::upper_bound(texts, origin.key, {}, &MetaEntry::key), &origin);
  }
  CborWriter cbor;
  cbor.map(1 + (texts.empty() ? 0 : 1) + (scalars.empty() ? 0 : 1)).text("tensors").map(tensors.size());
  for (const uint32_t i : by_name) BALLAST_CHECK(write_tensor(cbor, speller, tensors[i], places[i]));
  if (!texts.empty()) write_texts(cbor, texts);
  if (!scalars.empty()) write_scalars(cbor, scalars);
  if (cbor.bytes().size() > kBurnMaxMetadata) {
    return make_error(ErrorCode::kUnsupported, fmt::format("the metadata would take {} bytes; Burnpack allows {}",
                                                           cbor.bytes().size(), kBurnMaxMetadata));
  }
  return cbor.take();
}

// ---------------------------------------------------------------- the plan

class BurnpackWrite final : public PlannedWrite {
 public:
  BurnpackWrite(std::string head, uint64_t data_start, uint64_t data_size, std::vector<Place> places,
                std::span<const uint32_t> ties)
      : head_(std::move(head)),
        data_start_(data_start),
        places_(std::move(places)),
        ties_(ties.begin(), ties.end()),
        files_{{"", data_start_ + data_size}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }

  Status emit(size_t, ByteSink& sink, TensorFeed& feed) const override {
    BALLAST_CHECK(sink.write_text(head_));
    BALLAST_CHECK(sink.write_zeros(data_start_ - head_.size()));
    uint64_t at = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (payload_owner(ties_, i) != i) continue;
      BALLAST_CHECK(sink.write_zeros(places_[i].begin - at));
      BALLAST_CHECK(feed.emit(i, {}, sink));
      at = places_[i].end;
    }
    return {};
  }

 private:
  std::string head_;
  uint64_t data_start_;
  std::vector<Place> places_;  // ascending, but for those that share another's
  std::vector<uint32_t> ties_;
  std::vector<PlannedFile> files_;
};

}  // namespace

std::vector<Loss> find_burnpack_losses(const Description& description, const WriteOptions& options) {
  const Speller speller(description, options);
  const std::string format = fmt::format("{} ({})", kBurnpackReader.name, speller.target().name);
  std::vector<Loss> losses;
  for (const TensorInfo& tensor : description.tensors) {
    if (has_word(speller, tensor)) continue;
    losses.push_back(
        unsupported_dtype_loss(tensor, format, speller.target().bool_stores ? knows_dtype : knows_dtype_020));
  }
  const size_t kept = sort_entries(description, true).size() + sort_entries(description, false).size();
  const auto placed = static_cast<size_t>(std::ranges::count_if(description.metadata, has_place));
  if (kept < placed) {
    losses.push_back(
        {.tensor = "",
         .what = fmt::format("{} metadata entries have the key of a later one and would be left out", placed - kept),
         .cast_to = std::nullopt,
         .drop = true});
  }
  return losses;
}

Result<std::unique_ptr<PlannedWrite>> plan_burnpack(const WriteRequest& request) {
  const Description& description = request.description;
  if (description.tensors.size() > kBurnMaxTensors) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{} tensors; Burnpack readers take at most {}",
                                                           description.tensors.size(), kBurnMaxTensors));
  }
  const Speller speller(description, request.options);
  BALLAST_TRY(std::vector<Place> places, place_tensors(description.tensors, request.ties, speller.unaligned()));
  BALLAST_TRY(const std::string cbor, make_metadata(description, speller, places));
  std::string head(kBurnMagic);
  append_le<uint16_t>(head, kBurnVersion);
  append_le<uint32_t>(head, static_cast<uint32_t>(cbor.size()));
  head += cbor;
  const uint64_t data_start = speller.unaligned() ? head.size() : *checked_align_up(head.size(), kBurnAlignment);
  uint64_t data_size = 0;
  for (const Place& place : places) data_size = std::max(data_size, place.end);
  if (!checked_add(data_start, data_size)) {
    return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
  }
  return std::unique_ptr<PlannedWrite>(
      std::make_unique<BurnpackWrite>(std::move(head), data_start, data_size, std::move(places), request.ties));
}

}  // namespace ballast
