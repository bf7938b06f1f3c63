#include "ballast/training/checkpoints/checkpoint_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ballast/archive/manifest.h"
#include "ballast/base/json.h"
#include "ballast/formats/archive.h"

namespace ballast {

namespace {

constexpr std::string_view kFormat = "ballast-checkpoint";
constexpr uint64_t kVersion = 1;
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kManifestSuffix = ".json";

// ---------------------------------------------------------------- writing

std::string tensor_row(const CheckpointTensor& tensor) {
  const TensorInfo& info = tensor.info;
  JsonWriter row;
  row.begin_object().key("name").string(info.name).key("dtype").string(dtype_name(info.dtype));
  if (!info.scheme().empty()) row.key("scheme").string(info.scheme());
  row.key("shape").numbers(info.shape.dims()).key("bytes").number(info.byte_size);
  if (info.requires_grad) row.key("requires_grad").boolean(*info.requires_grad);
  if (info.param_id) row.key("param_id").number(*info.param_id);
  row.key("file").number(tensor.file).key("blake3").string(to_hex(tensor.digest)).end_object();
  return row.take();
}

std::string file_row(const CheckpointFile& file) {
  JsonWriter row;
  row.begin_object().key("name").string(file.name).key("format").string(file.format).key("bytes").number(file.bytes);
  row.key("new").boolean(file.is_new).key("blake3").string(to_hex(file.digest)).end_object();
  return row.take();
}

void write_tensors(JsonWriter& json, std::string_view key, const std::vector<CheckpointTensor>& tensors) {
  json.key(key).begin_array();
  for (const CheckpointTensor& tensor : tensors) json.raw(tensor_row(tensor));
  json.end_array();
}

void write_body(JsonWriter& json, const CheckpointManifest& manifest) {
  json.begin_object().key("step").number(manifest.step).key("sequence").number(manifest.sequence);
  json.key("saved_at").signed_number(manifest.saved_at).key("metrics").begin_object();
  for (const auto& [name, value] : manifest.metrics) json.key(name).real(value);
  json.end_object().key("config").string(manifest.config_json);
  if (manifest.model_config) {
    json.key("model_config").begin_object().key("schema").string(manifest.model_config->schema);
    json.key("text").string(manifest.model_config->text).end_object();
  }
  json.key("state").raw(manifest.state_json).key("files").begin_array();
  for (const CheckpointFile& file : manifest.files) json.raw(file_row(file));
  json.end_array();
  write_tensors(json, "weights", manifest.weights);
  write_tensors(json, "state_tensors", manifest.state);
  json.end_object();
}

// ---------------------------------------------------------------- reading

struct Envelope {
  std::string format;
  uint64_t version = 0;
  std::string_view body;
  uint64_t body_offset = 0;
  std::optional<Digest> digest;
};

Result<Envelope> read_envelope(std::string_view text, const std::string& where) {
  JsonReader json(text, where);
  Envelope envelope;
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "format") BALLAST_CHECK(assign(envelope.format, json.read_string()));
    else if (key == "version") BALLAST_CHECK(assign(envelope.version, json.read_u64()));
    else if (key == "body") BALLAST_CHECK(assign(envelope.body, json.read_raw()));
    else if (key == "blake3") BALLAST_CHECK(assign(envelope.digest, read_digest(json)));
    else BALLAST_CHECK(json.skip_value());
  }
  BALLAST_CHECK(json.finish());
  envelope.body_offset = envelope.body.empty() ? 0 : static_cast<uint64_t>(envelope.body.data() - text.data());
  return envelope;
}

Status check_envelope(const Envelope& envelope, const std::string& where) {
  if (envelope.format != kFormat) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: is not the manifest of a checkpoint", where));
  }
  if (envelope.version > kVersion) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: has version {}; this program knows up to {}: use the newer one that wrote it",
                                  where, envelope.version, kVersion));
  }
  if (envelope.body.empty() || !envelope.digest) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: lacks its body or its digest", where));
  }
  if (blake3(as_bytes(envelope.body)) == *envelope.digest) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: does not fit the digest that it carries: it was damaged or edited", where));
}

Result<DType> read_dtype(JsonReader& json) {
  BALLAST_TRY(const std::string_view name, json.read_string_view());
  const auto dtype = parse_dtype(name);
  if (!dtype) return json.error_here(fmt::format("unknown dtype \"{}\"", name));
  return *dtype;
}

Result<uint32_t> read_index(JsonReader& json) {
  BALLAST_TRY(const uint64_t value, json.read_u64());
  if (value > std::numeric_limits<uint32_t>::max()) return json.error_here("a number of a file that cannot be");
  return static_cast<uint32_t>(value);
}

Status read_tensor_field(JsonReader& json, const std::string& key, CheckpointTensor& tensor) {
  TensorInfo& info = tensor.info;
  if (key == "name") return assign(info.name, json.read_string());
  if (key == "dtype") return assign(info.dtype, read_dtype(json));
  if (key == "bytes") return assign(info.byte_size, json.read_u64());
  if (key == "requires_grad") return assign(info.requires_grad, json.read_bool());
  if (key == "param_id") return assign(info.param_id, json.read_u64());
  if (key == "file") return assign(tensor.file, read_index(json));
  if (key == "blake3") return assign(tensor.digest, read_digest(json));
  if (key == "scheme") {
    BALLAST_TRY(std::string scheme, json.read_string());
    info.set_scheme(std::move(scheme));
    return {};
  }
  if (key != "shape") return json.skip_value();
  BALLAST_TRY(const std::vector<uint64_t> dims, json.read_u64_array());
  info.shape = Shape(dims);
  return {};
}

Status read_file_field(JsonReader& json, const std::string& key, CheckpointFile& file) {
  if (key == "name") return assign(file.name, json.read_string());
  if (key == "format") return assign(file.format, json.read_string());
  if (key == "bytes") return assign(file.bytes, json.read_u64());
  if (key == "new") return assign(file.is_new, json.read_bool());
  if (key == "blake3") return assign(file.digest, read_digest(json));
  return json.skip_value();
}

Status read_config_field(JsonReader& json, const std::string& key, ModelConfig& config) {
  if (key == "schema") return assign(config.schema, json.read_string());
  if (key == "text") return assign(config.text, json.read_string());
  return json.skip_value();
}

template <typename Value>
using ReadField = Status (*)(JsonReader& json, const std::string& key, Value& value);

template <typename Value>
Status read_object(JsonReader& json, Value& value, ReadField<Value> read_field) {
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    BALLAST_CHECK(read_field(json, key, value));
  }
}

template <typename Value>
Status read_entries(JsonReader& json, std::vector<Value>& values, ReadField<Value> read_field) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_CHECK(read_object(json, values.emplace_back(), read_field));
  }
}

// JSON has no numbers for these, so they are texts.
Result<double> read_metric(JsonReader& json) {
  BALLAST_TRY(const JsonType type, json.peek());
  if (type != JsonType::kString) return json.read_double();
  BALLAST_TRY(const std::string_view text, json.read_string_view());
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return json.error_here("a metric must be a number, \"nan\", \"inf\" or \"-inf\"");
}

Status read_metric(JsonReader& json, const std::string& key, Metrics& metrics) {
  BALLAST_TRY(const double value, read_metric(json));
  metrics.emplace_back(key, value);
  return {};
}

Status read_body_field(JsonReader& json, const std::string& key, CheckpointManifest& manifest) {
  if (key == "step") return assign(manifest.step, json.read_u64());
  if (key == "sequence") return assign(manifest.sequence, json.read_u64());
  if (key == "saved_at") return assign(manifest.saved_at, json.read_i64());
  if (key == "metrics") return read_object(json, manifest.metrics, read_metric);
  if (key == "config") return assign(manifest.config_json, json.read_string());
  if (key == "model_config") return read_object(json, manifest.model_config.emplace(), read_config_field);
  if (key == "state") {
    BALLAST_TRY(const std::string_view state, json.read_raw());
    manifest.state_json = state;
    return {};
  }
  if (key == "files") return read_entries(json, manifest.files, read_file_field);
  if (key == "weights") return read_entries(json, manifest.weights, read_tensor_field);
  if (key == "state_tensors") return read_entries(json, manifest.state, read_tensor_field);
  return json.skip_value();
}

// ---------------------------------------------------------------- consistency

Status check_files(const CheckpointManifest& manifest, const std::string& where) {
  for (const CheckpointFile& file : manifest.files) {
    if (is_checkpoint_file_name(file.name)) continue;
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: names a file \"{}\", which no checkpoint can have", where, file.name));
  }
  return {};
}

Status check_listed_tensors(const CheckpointManifest& manifest, CheckpointPart part, const std::string& where) {
  const auto wrong = [&](const TensorInfo& info, std::string_view what) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: tensor \"{}\" {}", where, info.name, what));
  };
  std::vector<TensorInfo> infos;
  for (const CheckpointTensor& tensor : manifest.tensors(part)) {
    const TensorInfo& info = tensor.info;
    if (tensor.file >= manifest.files.size()) return wrong(info, "stands in a file that is not listed");
    if (has_fixed_size(info.dtype) && packed_size(info.shape, info.dtype) != info.byte_size) {
      return wrong(info, fmt::format("has {} bytes, which does not fit {} {}", info.byte_size, dtype_name(info.dtype),
                                     info.shape.to_string()));
    }
    infos.push_back(info);
  }
  const auto duplicates = find_duplicate_names(infos);
  return duplicates.empty() ? Status() : wrong(infos[duplicates.front()], "stands there twice");
}

}  // namespace

std::string checkpoint_manifest_to_json(const CheckpointManifest& manifest) {
  // Written with a digest of zeros first: only then is the text of the body known.
  const std::string placeholder(2 * Digest().size(), '0');
  JsonWriter json(/*pretty=*/true);
  json.begin_object().key("format").string(kFormat).key("version").number(kVersion).key("body");
  write_body(json, manifest);
  json.key("blake3").string(placeholder).end_object();
  std::string text = json.take() + "\n";
  const auto envelope = read_envelope(text, "");
  if (envelope) text.replace(text.rfind(placeholder), placeholder.size(), to_hex(blake3(as_bytes(envelope->body))));
  return text;
}

Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, const std::string& where) {
  auto envelope = read_envelope(text, where);
  if (!envelope && text.find_first_not_of('\0') == std::string_view::npos) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: holds nothing but {} zero bytes", where, text.size()));
  }
  if (!envelope) return std::move(envelope).error();
  BALLAST_CHECK(check_envelope(*envelope, where));
  JsonReader json(envelope->body, where, envelope->body_offset);
  CheckpointManifest manifest;
  BALLAST_CHECK(read_object(json, manifest, read_body_field));
  BALLAST_CHECK(check_files(manifest, where));
  BALLAST_CHECK(check_listed_tensors(manifest, CheckpointPart::kWeights, where));
  BALLAST_CHECK(check_listed_tensors(manifest, CheckpointPart::kState, where));
  return manifest;
}

std::string checkpoint_manifest_name(uint64_t step) {
  return fmt::format("{}{:08}{}", kStepPrefix, step, kManifestSuffix);
}

std::optional<uint64_t> step_of_manifest_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kManifestSuffix)) return std::nullopt;
  if (name.size() < kStepPrefix.size() + kManifestSuffix.size()) return std::nullopt;
  const std::string_view digits =
      name.substr(kStepPrefix.size(), name.size() - kStepPrefix.size() - kManifestSuffix.size());
  uint64_t step = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (failure != std::errc() || checkpoint_manifest_name(step) != name) return std::nullopt;
  return step;
}

std::string checkpoint_file_name(uint64_t step, CheckpointPart part, const Digest& content,
                                 std::string_view extension) {
  return fmt::format("{}{:08}-{}-{}{}", kStepPrefix, step, part == CheckpointPart::kWeights ? "weights" : "state",
                     to_hex(ByteSpan(content).first(8)), extension);
}

bool is_checkpoint_file_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return false;
  name.remove_prefix(kStepPrefix.size());
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits < 8) return false;
  name.remove_prefix(digits);
  if (name.starts_with("-weights-")) name.remove_prefix(9);
  else if (name.starts_with("-state-")) name.remove_prefix(7);
  else return false;
  constexpr size_t kHexDigits = 16;
  return name.find_first_not_of("0123456789abcdef") == kHexDigits && name[kHexDigits] == '.' &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string name_in_checkpoint_file(const std::string& name, std::string_view format) {
  std::string text = name;
  const size_t dot = format == "netcl" ? text.find('.') : std::string::npos;
  if (dot != std::string::npos) text[dot] = ':';
  return text;
}

uint64_t CheckpointManifest::payload_bytes() const {
  uint64_t total = 0;
  for (const auto* part : {&weights, &state}) {
    for (const CheckpointTensor& tensor : *part) total += tensor.info.byte_size;
  }
  return total;
}

uint64_t CheckpointManifest::new_bytes() const {
  uint64_t total = 0;
  for (const CheckpointFile& file : files) total += file.is_new ? file.bytes : 0;
  return total;
}

}  // namespace ballast
