// Shards with an index: `<name>.safetensors.index.json` or `<name>.bin.index.json` maps each tensor to a file in the
// same folder. What the files are, they say themselves; PyTorch's are only read.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/safetensors/safetensors.h"
#include "ballast/formats/shards.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

constexpr std::string_view kWeightMapKey = "weight_map";
constexpr std::string_view kSafetensorsEnding = ".safetensors";
constexpr size_t kMaxShards = 65'535;  // StoredExtent::source counts them

struct ShardIndex {
  std::map<std::string, std::vector<std::string>> tensors_of_shard;  // ordered: output never depends on hashing
  std::vector<MetaEntry> metadata;
  std::optional<uint64_t> total_size;
};

Status parse_index_metadata(JsonReader& json, ShardIndex& index) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    BALLAST_TRY(const JsonType type, json.peek());
    if (type == JsonType::kString) {
      BALLAST_TRY(std::string value, json.read_string());
      index.metadata.push_back({key, std::move(value)});
      continue;
    }
    BALLAST_TRY(const std::string_view raw, json.read_raw());
    // Some writers put a float here (1.2e9); only a whole number can be checked.
    JsonReader number(raw, "total_size");
    if (key != "total_size") index.metadata.push_back({key, std::string(raw)});
    else if (const auto size = number.read_u64()) index.total_size = *size;
  }
}

Status parse_weight_map(JsonReader& json, ShardIndex& index) {
  BALLAST_CHECK(json.enter_object());
  std::string name;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(name));
    if (!more) return {};
    BALLAST_TRY(std::string shard, json.read_string());
    index.tensors_of_shard[std::move(shard)].push_back(name);
  }
}

Result<ShardIndex> parse_index(const ByteSource& source) {
  BALLAST_TRY(const BytesOrView bytes, BytesOrView::of(source, 0, source.size()));
  JsonReader json(as_text(bytes.bytes()), source.name());
  ShardIndex index;
  bool has_map = false;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == kWeightMapKey && has_map) return json.error_here("weight_map stands twice");
    if (key == kWeightMapKey) {
      has_map = true;
      BALLAST_CHECK(parse_weight_map(json, index));
    } else if (key == "metadata") {
      BALLAST_CHECK(parse_index_metadata(json, index));
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
  BALLAST_CHECK(json.finish());
  if (!has_map) return json.error_here("the index has no weight_map");
  if (index.tensors_of_shard.size() > kMaxShards) return json.error_here("the index names too many shards");
  return index;
}

// Gathers the shards into one archive.
class ShardSet {
 public:
  ShardSet(const OpenRequest& request, const ShardIndex& index, Findings& findings)
      : request_(request), index_(index), findings_(findings) {
    description_.format = kSafetensorsReader.name;
    description_.version = "1";
    description_.metadata = index.metadata;
  }

  Result<Archive> open() {
    for (const auto& [shard, names] : index_.tensors_of_shard) BALLAST_CHECK(add_shard(shard, names));
    BALLAST_CHECK(check_set());
    mark_ties(description_.tensors, extents_);
    return Archive(std::move(description_), std::move(extents_), std::move(sources_));
  }

 private:
  const std::string& index_name() const { return request_.source->name(); }

  Status add_shard(const std::string& shard, const std::vector<std::string>& names) {
    auto source = request_.siblings->open_sibling(shard);
    if (!source) {
      const bool is_missing = source.error().code == ErrorCode::kNotFound;
      return lose_shard(
          names, make_error(is_missing ? ErrorCode::kCorrupt : source.error().code,
                            fmt::format("{}: shard \"{}\", which holds tensor \"{}\" and {} more, cannot "
                                        "be opened: {}",
                                        index_name(), shard, names.front(), names.size() - 1, source.error().message)));
    }
    const auto opened = open_shard(shard, *source);
    if (!opened) return lose_shard(names, opened.error());
    const Description& file = opened->description();
    BALLAST_CHECK(check_promised(shard, names, file.tensors));
    const auto number = static_cast<uint16_t>(sources_.size());
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      extents_.push_back(opened->extent(i));
      extents_.back().source = number;
      description_.tensors.push_back(file.tensors[i]);
    }
    merge_metadata(shard, file);
    sources_.push_back(std::move(*source));
    return {};
  }

  // Without siblings: an index among the shards leads nowhere.
  Result<Archive> open_shard(const std::string& shard, const std::shared_ptr<const ByteSource>& source) {
    const OpenRequest request{.source = source, .file_name = shard};
    static constexpr const FormatReader* kSafetensorsAlone[] = {&kSafetensorsReader};
    const std::span<const FormatReader* const> readers =
        request_.readers.empty() ? std::span(kSafetensorsAlone) : request_.readers;
    BALLAST_TRY(const FormatReader* format, detect_reader(request, readers));
    if (!format->can_be_shard) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: shard \"{}\" is {}; the shards of an index are safetensors or PyTorch files",
                                    index_name(), shard, format->name));
    }
    BALLAST_TRY(Archive archive, format->open(request, findings_));
    if (sources_.empty()) {
      description_.format = format->name;
      description_.version = archive.description().version;
      description_.producer = archive.description().producer;
    } else if (description_.format != format->name) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: shard \"{}\" is {}, those before it are {}", index_name(),
                                                         shard, format->name, description_.format));
    }
    return archive;
  }

  // The error, or, when rescuing, one for each tensor that is lost with the shard.
  Status lose_shard(const std::vector<std::string>& names, Error why) {
    if (!findings_.rescues()) return why;
    for (const std::string& name : names) BALLAST_CHECK(findings_.error("missing_shard", 0, name, why.message));
    return {};
  }

  Status check_promised(const std::string& shard, const std::vector<std::string>& promised,
                        const std::vector<TensorInfo>& found) {
    std::vector<std::string_view> names;
    for (const TensorInfo& tensor : found) names.push_back(tensor.name);
    std::ranges::sort(names);
    for (const std::string& name : promised) {
      if (std::ranges::binary_search(names, std::string_view(name))) continue;
      BALLAST_CHECK(findings_.error("missing_tensor", 0, name,
                                    fmt::format("{}: tensor \"{}\" should stand in \"{}\" but does not; the shards may "
                                                "come from different saves",
                                                index_name(), name, shard)));
    }
    if (found.size() > promised.size()) {
      findings_.warning("unlisted_tensor", 0, "", [&] {
        return fmt::format("{}: shard \"{}\" holds {} tensors, the index lists {}", index_name(), shard, found.size(),
                           promised.size());
      });
    }
    return {};
  }

  // Every shard repeats the same metadata; what differs is kept from the first and reported.
  void merge_metadata(const std::string& shard, const Description& other) {
    if (other.origin && !description_.origin) description_.origin = other.origin;
    for (const MetaEntry& entry : other.metadata) {
      const auto known = std::ranges::find(description_.metadata, entry.key, &MetaEntry::key);
      if (known == description_.metadata.end()) {
        description_.metadata.push_back(entry);
      } else if (!(*known == entry)) {
        findings_.warning("metadata_conflict", 0, "",
                          [&] { return fmt::format("{}: metadata \"{}\" differs between shards", shard, entry.key); });
      }
    }
  }

  Status check_set() {
    for (const size_t twin : find_duplicate_names(description_.tensors)) {
      BALLAST_CHECK(findings_.error(
          "duplicate_name", extents_[twin].offset, description_.tensors[twin].name,
          fmt::format("{}: tensor \"{}\" stands in two shards", index_name(), description_.tensors[twin].name)));
    }
    uint64_t total = 0;
    for (const TensorInfo& tensor : description_.tensors) total += tensor.byte_size;
    if (index_.total_size && *index_.total_size != total) {
      findings_.warning("total_size", 0, "", [&] {
        return fmt::format("{}: total_size is {}, the shards hold {} bytes of tensors", index_name(),
                           *index_.total_size, total);
      });
    }
    return {};
  }

  const OpenRequest& request_;
  const ShardIndex& index_;
  Findings& findings_;
  Description description_;
  std::vector<StoredExtent> extents_;
  std::vector<std::shared_ptr<const ByteSource>> sources_;
};

// ---------------------------------------------------------------- writing

// `model-00001-of-00002.safetensors`, or with a generation `model-g1-00001-of-00002.safetensors`: transformers takes
// whatever the index names, and its tools recognise shards by the numbers at the end.
std::string shard_name(std::string_view stem, uint32_t generation, size_t number, size_t count) {
  const std::string tag = generation == 0 ? "" : fmt::format("-g{}", generation);
  return fmt::format("{}{}-{:05}-of-{:05}{}", stem, tag, number, count, kSafetensorsEnding);
}

bool take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(count);
  return count > 0;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

enum class ShardName : uint8_t { kNone, kPlain, kTagged };

// Whether shard_name could have made `name`.
ShardName shard_name_kind(std::string_view name, std::string_view stem) {
  if (!take_text(name, stem)) return ShardName::kNone;
  const bool tagged = take_text(name, "-g");
  if (tagged && !take_digits(name)) return ShardName::kNone;
  const bool numbered = take_text(name, "-") && take_digits(name) && take_text(name, "-of-") && take_digits(name);
  if (!numbered || name != kSafetensorsEnding) return ShardName::kNone;
  return tagged ? ShardName::kTagged : ShardName::kPlain;
}

class ShardedWrite final : public PlannedWrite {
 public:
  ShardedWrite(std::string stem, std::vector<SafetensorsLayout> shards, std::vector<PlannedFile> files,
               std::string index)
      : stem_(std::move(stem)), shards_(std::move(shards)), files_(std::move(files)), index_(std::move(index)) {}

  const std::vector<PlannedFile>& files() const override { return files_; }
  bool is_indexed() const override { return true; }

  // Shards that the old index names, and tagged ones that no index names: a writer was killed before its commit.
  std::vector<std::string> find_superseded(const ByteSource* old_index,
                                           std::span<const std::string> folder) const override {
    std::map<std::string, std::vector<std::string>> named;
    if (old_index != nullptr) {
      if (auto parsed = parse_index(*old_index)) named = std::move(parsed->tensors_of_shard);
    }
    std::vector<std::string> found;
    for (const std::string& name : folder) {
      const ShardName kind = shard_name_kind(name, stem_);
      const bool is_old = kind == ShardName::kTagged || (kind == ShardName::kPlain && named.contains(name));
      if (is_old && std::ranges::find(files_, name, &PlannedFile::file_name) == files_.end()) found.push_back(name);
    }
    return found;
  }

  Status emit(size_t file_index, ByteSink& sink, TensorFeed& feed) const override {
    if (file_index == shards_.size()) return sink.write_text(index_);
    BALLAST_CHECK(sink.write_text(shards_[file_index].header));
    for (const size_t tensor : shards_[file_index].order) BALLAST_CHECK(feed.emit(tensor, {}, sink));
    return {};
  }

 private:
  std::string stem_;
  std::vector<SafetensorsLayout> shards_;
  std::vector<PlannedFile> files_;
  std::string index_;
};

std::string index_json(const Description& description, const std::map<std::string_view, std::string_view>& weight_map) {
  uint64_t total = 0;
  for (const TensorInfo& tensor : description.tensors) total += tensor.byte_size;
  JsonWriter json(/*pretty=*/true);
  json.begin_object().key("metadata").begin_object().key("total_size").number(total).end_object();
  json.key(kWeightMapKey).begin_object();
  for (const auto& [name, file] : weight_map) json.key(name).string(file);
  json.end_object().end_object();
  return json.take() + "\n";
}

}  // namespace

bool looks_like_safetensors_index(ByteSpan head) {
  const std::string_view text = as_text(head);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return false;
  return text.find("\"weight_map\"") != std::string_view::npos;
}

Result<Archive> open_safetensors_index(const OpenRequest& request, Findings& findings) {
  if (request.siblings == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: an index of shards can only be opened by its path, because the shards stand "
                                  "beside it",
                                  request.source->name()));
  }
  BALLAST_TRY(const ShardIndex index, parse_index(*request.source));
  return ShardSet(request, index, findings).open();
}

Result<std::unique_ptr<PlannedWrite>> plan_safetensors_shards(const WriteRequest& request) {
  const Description& description = request.description;
  std::string stem = request.file_name;
  if (stem.ends_with(kSafetensorsEnding)) stem.resize(stem.size() - kSafetensorsEnding.size());

  const auto members = assign_shards(description.tensors, request.options.shard_size);
  std::vector<SafetensorsLayout> shards;
  std::vector<PlannedFile> files;
  for (size_t i = 0; i < members.size(); ++i) {
    BALLAST_TRY(SafetensorsLayout layout, plan_safetensors(description, members[i]));
    files.push_back(
        {shard_name(stem, request.generation, i + 1, members.size()), layout.header.size() + layout.payload_bytes});
    shards.push_back(std::move(layout));
  }
  std::map<std::string_view, std::string_view> weight_map;
  for (size_t i = 0; i < members.size(); ++i) {
    for (const size_t tensor : members[i]) weight_map[description.tensors[tensor].name] = files[i].file_name;
  }
  std::string index = index_json(description, weight_map);
  files.push_back({stem + ".safetensors.index.json", index.size()});
  return std::unique_ptr<PlannedWrite>(
      std::make_unique<ShardedWrite>(std::move(stem), std::move(shards), std::move(files), std::move(index)));
}

}  // namespace ballast
