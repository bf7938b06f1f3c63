// A GGUF model in several files: `<name>-00001-of-00003.gguf` and so on, each a GGUF file of its own, the metadata in
// the first.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"

namespace ballast {

namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";
constexpr uint64_t kMostParts = 65'535;  // StoredExtent::source counts them

Result<std::optional<uint64_t>> find_count(const Description& description, std::string_view key,
                                           const std::string& where) {
  const auto found = std::ranges::find(description.metadata, key, &MetaEntry::key);
  if (found == description.metadata.end()) return std::optional<uint64_t>();
  if (const auto* natural = std::get_if<uint64_t>(&found->value)) return std::optional(*natural);
  const auto* integer = std::get_if<int64_t>(&found->value);
  if (integer != nullptr && *integer >= 0) return std::optional(static_cast<uint64_t>(*integer));
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: metadata \"{}\" is no count", where, key));
}

std::string part_ending(uint64_t number, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// Gathers the parts into one archive.
class PartSet {
 public:
  PartSet(const OpenRequest& request, uint64_t count, Findings& findings)
      : request_(request), count_(count), findings_(findings) {}

  Result<Archive> open(GgufFile given, const GgufSplit& split) {
    const std::string ending = part_ending(split.number, count_);
    if (!request_.file_name.ends_with(ending)) return misnamed(split, ending);
    stem_ = request_.file_name.substr(0, request_.file_name.size() - ending.size());
    for (uint64_t i = 0; i < count_; ++i) {
      if (i == split.number) BALLAST_CHECK(add(request_.source, std::move(given), split));
      else BALLAST_CHECK(add_sibling(i));
    }
    BALLAST_CHECK(check_set());
    description_.stored_form = form_.to_text();
    return Archive(std::move(description_), std::move(extents_), std::move(sources_));
  }

 private:
  Error misnamed(const GgufSplit& split, const std::string& ending) const {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: the file says that it is part {} of {}, but it is not called …{}: the parts "
                                  "cannot be found, or do not belong together",
                                  request_.source->name(), split.number + 1, count_, ending));
  }

  Status add_sibling(uint64_t number) {
    const std::string name = stem_ + part_ending(number, count_);
    auto source = request_.siblings->open_sibling(name);
    if (!source) {
      const bool is_missing = source.error().code == ErrorCode::kNotFound;
      return lose(number, make_error(is_missing ? ErrorCode::kCorrupt : source.error().code,
                                     fmt::format("{}: part {} of {} cannot be opened: {}", request_.source->name(),
                                                 number + 1, count_, source.error().message)));
    }
    auto file = parse_gguf(**source, findings_);
    if (!file) return lose(number, std::move(file).error());
    auto split = find_gguf_split(file->description, (*source)->name());
    if (!split) return lose(number, std::move(split).error());
    if (split->count != count_ || split->number != number) {
      return lose(number,
                  make_error(ErrorCode::kCorrupt,
                             fmt::format("{}: the file says that it is part {} of {}, but its name says part "
                                         "{} of {}; it may come from another model",
                                         (*source)->name(), split->number + 1, split->count, number + 1, count_)));
    }
    return add(std::move(*source), std::move(*file), *split);
  }

  // The error, or, when rescuing, a finding: the other parts are sound.
  Status lose(uint64_t number, Error why) {
    complete_ = false;
    digest_before_.reset();
    if (findings_.rescues()) return findings_.error("missing_part", number, "", std::move(why.message));
    return why;
  }

  Status add(std::shared_ptr<const ByteSource> source, GgufFile file, const GgufSplit& split) {
    if (announced_ && split.tensors && *announced_ != *split.tensors) {
      BALLAST_CHECK(findings_.error("tensor_count", 0, "",
                                    fmt::format("{}: {} tensors are announced for all parts together, in the parts "
                                                "before it {}",
                                                source->name(), *split.tensors, *announced_)));
    }
    if (split.tensors) announced_ = split.tensors;
    BALLAST_CHECK(check_bond(*source, file.description, split.number));
    for (StoredExtent& extent : file.extents) {
      extent.source = static_cast<uint16_t>(sources_.size());
      extents_.push_back(extent);
    }
    std::ranges::move(file.description.tensors, std::back_inserter(description_.tensors));
    merge_metadata(source->name(), split.number, file);
    sources_.push_back(std::move(source));
    return {};
  }

  // A writer that was killed while it replaced a set leaves new parts beside old ones.
  Status check_bond(const ByteSource& source, const Description& part, uint64_t number) {
    GgufSplitBond bond = find_gguf_split_bond(part);
    const bool fits = number == 0 || !digest_before_ || *digest_before_ == bond.previous;
    digest_before_ = std::move(bond.digest);
    if (fits) return {};
    return findings_.error("mixed_parts", 0, "",
                           fmt::format("{}: part {} of {} belongs to another version of the set than part {}: writing "
                                       "the set was interrupted; write it again",
                                       source.name(), number + 1, count_, number));
  }

  // How the set was packed is no content: neither the keys that say so nor the padding of its parts.
  void merge_metadata(const std::string& where, uint64_t number, GgufFile& file) {
    if (description_.format.empty()) {
      description_.format = kGgufReader.name;
      description_.version = file.description.version;
      form_.order = file.form.order;
    }
    if (file.description.origin && !description_.origin) description_.origin = std::move(file.description.origin);
    for (MetaEntry& entry : file.description.metadata) {
      if (is_gguf_split_key(entry.key) || (number != 0 && entry.key == kGgufAlignmentKey)) continue;
      const auto known = std::ranges::find(description_.metadata, entry.key, &MetaEntry::key);
      if (number == 0 || known == description_.metadata.end()) {
        if (const auto type = file.form.types.find(entry.key); type != file.form.types.end()) form_.types.insert(*type);
        description_.metadata.push_back(std::move(entry));
      } else if (!(*known == entry)) {
        findings_.warning("metadata_conflict", 0, "",
                          [&] { return fmt::format("{}: metadata \"{}\" differs between parts", where, entry.key); });
      }
    }
  }

  Status check_set() {
    for (const size_t twin : find_duplicate_names(description_.tensors)) {
      BALLAST_CHECK(findings_.error("duplicate_name", extents_[twin].offset, description_.tensors[twin].name,
                                    fmt::format("{}: tensor \"{}\" stands in two parts", request_.source->name(),
                                                description_.tensors[twin].name)));
    }
    if (!complete_ || !announced_ || *announced_ == description_.tensors.size()) return {};
    return findings_.error(
        "tensor_count", 0, "",
        fmt::format("{}: {} tensors are announced for all parts together, but they hold {}; they may "
                    "come from different models",
                    request_.source->name(), *announced_, description_.tensors.size()));
  }

  const OpenRequest& request_;
  uint64_t count_;
  Findings& findings_;
  std::string stem_;
  Description description_;
  GgufForm form_;
  std::optional<uint64_t> announced_;
  bool complete_ = true;
  std::optional<std::string> digest_before_;  // of the part before; nullopt where that could not be read
  std::vector<StoredExtent> extents_;
  std::vector<std::shared_ptr<const ByteSource>> sources_;
};

}  // namespace

bool is_gguf_split_key(std::string_view key) {
  return key == kNumberKey || key == kCountKey || key == kTensorsKey || key == kGgufSplitDigestKey ||
         key == kGgufSplitPreviousKey;
}

GgufSplitBond find_gguf_split_bond(const Description& description) {
  const auto text = [&](std::string_view key) {
    const auto found = std::ranges::find(description.metadata, key, &MetaEntry::key);
    const auto* value = found == description.metadata.end() ? nullptr : std::get_if<std::string>(&found->value);
    return value == nullptr ? std::string() : *value;
  };
  return {text(kGgufSplitDigestKey), text(kGgufSplitPreviousKey)};
}

Result<GgufSplit> find_gguf_split(const Description& description, const std::string& where) {
  BALLAST_TRY(const auto count, find_count(description, kCountKey, where));
  GgufSplit split;
  if (!count || *count <= 1) return split;
  BALLAST_TRY(const auto number, find_count(description, kNumberKey, where));
  BALLAST_TRY(split.tensors, find_count(description, kTensorsKey, where));
  split.count = *count;
  split.number = number.value_or(0);
  if (split.number < split.count && split.count <= kMostParts) return split;
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} is {} and {} is {}, which cannot be", where, kNumberKey,
                                                     split.number, kCountKey, split.count));
}

void add_gguf_split_keys(const GgufSplit& split, std::vector<MetaEntry>& metadata, GgufForm& form) {
  metadata.push_back({std::string(kNumberKey), split.number});
  metadata.push_back({std::string(kCountKey), split.count});
  metadata.push_back({std::string(kTensorsKey), static_cast<int64_t>(split.tensors.value_or(0))});
  form.types[std::string(kNumberKey)] = MetaType::kU16;
  form.types[std::string(kCountKey)] = MetaType::kU16;
}

std::string gguf_part_name(std::string_view file_name, const GgufSplit& split) {
  constexpr std::string_view kEnding = ".gguf";
  if (file_name.ends_with(kEnding)) file_name.remove_suffix(kEnding.size());
  return std::string(file_name) + part_ending(split.number, split.count);
}

Result<Archive> open_gguf_split(const OpenRequest& request, GgufFile given, const GgufSplit& split,
                                Findings& findings) {
  if (request.siblings == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: this is part {} of {}, which can only be opened by its path, because the others "
                                  "stand beside it",
                                  request.source->name(), split.number + 1, split.count));
  }
  return PartSet(request, split.count, findings).open(std::move(given), split);
}

}  // namespace ballast
