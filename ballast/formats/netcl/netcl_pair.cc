// netcl's pairs: `<stem>.npz` with the tensors, `<stem>.json` with the layers (version 1) or with the state of a
// training run (checkpoint). What the JSON says tells the two apart.
#include <fmt/format.h>

#include "ballast/base/hash.h"
#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast {

namespace {

constexpr std::string_view kJsonEnding = ".json";
constexpr std::string_view kNpzEnding = ".npz";
constexpr std::string_view kEmptyCheckpoint = R"({"optim_state": {}, "config": {}})";  // as netcl writes nothing

// ---------------------------------------------------------------- telling them apart

struct JsonClues {
  bool optim_state = false;
  bool sequential = false;  // "type": "Sequential"
  bool layer_list = false;  // "config" or "layers" is a list
};

// The top-level keys, as far as `head` reaches; a cut or damaged text ends the search.
JsonClues find_clues(ByteSpan head) {
  JsonReader json(as_text(head), "", 0, JsonReader::Dialect::kPython);
  JsonClues clues;
  if (!json.enter_object()) return clues;
  std::string key;
  for (;;) {
    const auto more = json.next_key(key);
    if (!more || !*more) return clues;
    clues.optim_state = clues.optim_state || key == "optim_state";
    const auto type = json.peek();
    if (!type) return clues;
    if (key == "config" || key == "layers") clues.layer_list = clues.layer_list || *type == JsonType::kArray;
    const auto raw = json.read_raw();
    if (!raw) return clues;
    clues.sequential = clues.sequential || (key == "type" && *raw == "\"Sequential\"");
  }
}

SniffMatch sniff_legacy(const SniffInput& input) {
  const JsonClues clues = find_clues(input.head);
  if (clues.sequential) return SniffMatch::kCertain;
  return clues.layer_list ? SniffMatch::kLikely : SniffMatch::kNo;
}

SniffMatch sniff_checkpoint(const SniffInput& input) {
  return find_clues(input.head).optim_state ? SniffMatch::kCertain : SniffMatch::kNo;
}

// ---------------------------------------------------------------- reading

std::string stem_of(std::string_view file_name) {
  for (const std::string_view ending : {kJsonEnding, kNpzEnding}) {
    if (file_name.ends_with(ending)) return std::string(file_name.substr(0, file_name.size() - ending.size()));
  }
  return std::string(file_name);
}

Result<std::shared_ptr<const ByteSource>> open_npz_half(const OpenRequest& request) {
  if (request.siblings == nullptr || (request.companion.empty() && request.file_name.empty())) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: half of a netcl pair can only be opened by its path, because the tensors stand "
                                  "beside it",
                                  request.source->name()));
  }
  const std::string name =
      request.companion.empty() ? stem_of(request.file_name) + std::string(kNpzEnding) : request.companion;
  auto opened = request.siblings->open_sibling(name);
  if (opened) return opened;
  return make_error(
      opened.error().code,
      fmt::format("{}: the tensors should stand beside it in \"{}\": {}. netcl puts those of a checkpoint "
                  "with a dotted name into \"{}.<rest of the name>.npz\": then open it by the name of that "
                  "file without \".npz\"",
                  request.source->name(), name, opened.error().message, stem_of(request.file_name)));
}

struct Pair {
  NpzContents contents;
  std::vector<std::shared_ptr<const ByteSource>> sources;  // JSON, NPZ
};

std::string digest_of(std::string_view json) { return to_hex(blake3(as_bytes(json))); }

// The NPZ half, with the JSON that `request` opened.
Result<Pair> read_pair(const OpenRequest& request, std::string_view json, Findings& findings) {
  BALLAST_TRY(auto npz, open_npz_half(request));
  BALLAST_TRY(NpzContents contents, read_npz(npz, findings));
  if (contents.pair && *contents.pair != digest_of(json)) {
    BALLAST_CHECK(findings.error(
        "mixed_pair", 0, "",
        fmt::format("{}: belongs to another JSON than {}: writing the pair was interrupted, or the JSON was changed "
                    "since; write the pair again",
                    npz->name(), request.source->name())));
  }
  for (StoredExtent& extent : contents.extents) extent.source = 1;
  return Pair{std::move(contents), {request.source, std::move(npz)}};
}

Archive make_archive(Pair pair, const FormatReader& reader, std::string version, std::string producer,
                     ModelConfig config) {
  Description description;
  description.format = reader.name;
  description.version = std::move(version);
  description.producer = std::move(producer);
  description.config = std::move(config);
  description.stored_form = netcl_form_text(pair.contents.form);
  description.origin = std::move(pair.contents.origin);
  description.tensors = std::move(pair.contents.tensors);
  return Archive(std::move(description), std::move(pair.contents.extents), std::move(pair.sources));
}

Result<Archive> open_legacy(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(const BytesOrView bytes, BytesOrView::of(*request.source, 0, request.source->size()));
  const std::string_view text = as_text(bytes.bytes());
  // The JSON first: when it is broken there is no pair.
  BALLAST_TRY([[maybe_unused]] const NetclModel sound, parse_netcl_config(text, request.source->name()));
  BALLAST_TRY(Pair pair, read_pair(request, text, findings));
  BALLAST_TRY(const NetclModel model, check_netcl_model(text, request.source->name(), pair.contents.tensors, findings));
  return make_archive(std::move(pair), kNetclLegacyReader, model.version, netcl_producer(model),
                      {std::string(kNetclSchema), std::string(text)});
}

// netcl gives its caller whatever the JSON holds; only its grammar and its top are checked.
Status check_checkpoint_json(std::string_view text, const std::string& where, Findings& findings) {
  JsonReader json(text, where, 0, JsonReader::Dialect::kPython);
  BALLAST_CHECK(json.enter_object());
  bool optim_state = false, config = false;
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    bool* seen = key == "optim_state" ? &optim_state : key == "config" ? &config : nullptr;
    if (seen != nullptr && *seen) return json.error_here(fmt::format("\"{}\" stands twice", key));
    if (seen != nullptr) *seen = true;
    BALLAST_CHECK(json.skip_value());
  }
  BALLAST_CHECK(json.finish());
  if (!optim_state || !config) {
    findings.note("checkpoint_keys", 0, "", [&] {
      return fmt::format("{}: \"{}\" is missing; netcl always writes it", where,
                         optim_state ? "config" : "optim_state");
    });
  }
  return {};
}

Result<Archive> open_checkpoint(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(const BytesOrView bytes, BytesOrView::of(*request.source, 0, request.source->size()));
  const std::string_view text = as_text(bytes.bytes());
  BALLAST_CHECK(check_checkpoint_json(text, request.source->name(), findings));
  BALLAST_TRY(Pair pair, read_pair(request, text, findings));
  return make_archive(std::move(pair), kNetclCheckpointReader, "1", "netcl",
                      {std::string(kNetclCheckpointSchema), std::string(text)});
}

// ---------------------------------------------------------------- writing

std::vector<Loss> find_legacy_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  find_npz_losses(description, kNetclLegacyReader.name, losses);
  return losses;
}

std::vector<Loss> find_checkpoint_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  find_npz_losses(description, kNetclCheckpointReader.name, losses);
  return losses;
}

class PairWrite final : public PlannedWrite {
 public:
  PairWrite(NpzLayout layout, std::string json, const std::string& stem)
      : layout_(std::move(layout)),
        json_(std::move(json)),
        files_{{stem + std::string(kNpzEnding), layout_.size()}, {stem + std::string(kJsonEnding), json_.size()}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }
  Status emit(size_t file_index, ByteSink& sink, TensorFeed& feed) const override {
    return file_index == 0 ? layout_.emit(sink, feed) : sink.write_text(json_);
  }

 private:
  NpzLayout layout_;
  std::string json_;
  std::vector<PlannedFile> files_;
};

Result<std::unique_ptr<PlannedWrite>> plan_pair(const WriteRequest& request, const FormatReader& reader,
                                                std::string json) {
  const Description& description = request.description;
  const std::string stem = stem_of(request.file_name);
  if (stem.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a pair of files, which need a name to share", reader.name));
  }
  const bool keep_forms = request.options.keep_form && description.format == reader.name;
  const NpzForm form = keep_forms ? netcl_form_from_text(description.stored_form) : NpzForm{.numpy = true};
  std::vector<NpzExtraMember> extras;
  if (description.origin) extras.push_back(npz_text_member(kOriginKey, *description.origin));
  // The NPZ is renamed first. Where that replaces an older one, it must not pass for the other half of the older JSON.
  if (request.generation != 0) extras.push_back(npz_text_member(kPairKey, digest_of(json)));
  BALLAST_TRY(NpzLayout layout, NpzLayout::plan(description.tensors, form, keep_forms, std::move(extras)));
  return std::unique_ptr<PlannedWrite>(std::make_unique<PairWrite>(std::move(layout), std::move(json), stem));
}

Result<std::unique_ptr<PlannedWrite>> plan_legacy(const WriteRequest& request) {
  BALLAST_TRY(std::string text, netcl_config_text(request.description, kNetclLegacyReader.name));
  if (request.description.format != kNetclLegacyReader.name) {
    BALLAST_TRY(text, netcl_config_as_version_1(text));
  }
  return plan_pair(request, kNetclLegacyReader, std::move(text));
}

Result<std::unique_ptr<PlannedWrite>> plan_checkpoint(const WriteRequest& request) {
  const auto& config = request.description.config;
  const bool has_state = config && config->schema == kNetclCheckpointSchema;
  std::string text(has_state ? std::string_view(config->text) : kEmptyCheckpoint);
  Findings findings = Findings::stop_at_first_error();
  if (const auto sound = check_checkpoint_json(text, "the checkpoint's state", findings); !sound) {
    return make_error(ErrorCode::kInvalidArgument, sound.error().message);
  }
  return plan_pair(request, kNetclCheckpointReader, std::move(text));
}

}  // namespace

constexpr FormatReader kNetclLegacyReader = {
    .name = "netcl-legacy",
    .summary = "netcl model, version 1: a pair of .npz and .json",
    .extensions = {},
    .sniff = sniff_legacy,
    .open = open_legacy,
};

constexpr FormatWriter kNetclLegacyWriter = {
    .find_losses = find_legacy_losses,
    .plan_write = plan_legacy,
    .config_schema = kNetclSchema,
};

const FormatDriver kNetclLegacyDriver = {kNetclLegacyReader, kNetclLegacyWriter};

constexpr FormatReader kNetclCheckpointReader = {
    .name = "netcl-checkpoint",
    .summary = "netcl training checkpoint: a pair of .npz and .json",
    .extensions = {},
    .sniff = sniff_checkpoint,
    .open = open_checkpoint,
};

constexpr FormatWriter kNetclCheckpointWriter = {
    .find_losses = find_checkpoint_losses,
    .plan_write = plan_checkpoint,
    .config_schema = kNetclCheckpointSchema,
};

const FormatDriver kNetclCheckpointDriver = {kNetclCheckpointReader, kNetclCheckpointWriter};

}  // namespace ballast
