#include "ballast/archive/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <numeric>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"

namespace ballast {

namespace {

constexpr uint64_t kOriginVersion = 1;
// Behind an entry whose key is no UTF-8 and therefore stands in hexadecimal.
constexpr std::string_view kHexKey = "x";

// ---------------------------------------------------------------- metadata values

// What a JSON text cannot hold stands in hexadecimal, under a type of its own.
void write_text(JsonWriter& json, const std::string& text) {
  if (is_valid_utf8(text)) json.string("s").string(text);
  else json.string("x").string(to_hex(as_bytes(text)));
}

void write_array(JsonWriter& json, const MetaArray& array) {
  json.string("a").string(
      fmt::format("{}:{}:{}", meta_type_name(array.element()), array.size(), to_hex(array.encoded())));
}

void write_value(JsonWriter& json, const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) write_text(json, *text);
  else if (const auto* integer = std::get_if<int64_t>(&value)) json.string("i").string(std::to_string(*integer));
  else if (const auto* natural = std::get_if<uint64_t>(&value)) json.string("u").string(std::to_string(*natural));
  else if (const auto* real = std::get_if<double>(&value))
    json.string("f").string(fmt::format("{:016x}", std::bit_cast<uint64_t>(*real)));
  else if (const auto* truth = std::get_if<bool>(&value)) json.string("b").string(*truth ? "1" : "0");
  else write_array(json, std::get<MetaArray>(value));
}

void write_metadata(JsonWriter& json, const std::vector<MetaEntry>& metadata) {
  json.begin_array();
  for (const MetaEntry& entry : metadata) {
    const bool is_text = is_valid_utf8(entry.key);
    json.begin_array().string(is_text ? entry.key : to_hex(as_bytes(entry.key)));
    write_value(json, entry.value);
    if (!is_text) json.string(kHexKey);
    json.end_array();
  }
  json.end_array();
}

template <typename T>
Result<T> parse_number(const std::string& text, int base = 10) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc() || end != text.data() + text.size()) {
    return make_error(ErrorCode::kCorrupt, "ballast.origin: not a number: " + text);
  }
  return value;
}

Result<std::string> parse_hex_text(std::string_view hex) {
  const auto bytes = parse_hex(hex);
  if (!bytes) return make_error(ErrorCode::kCorrupt, "ballast.origin: not hexadecimal");
  return std::string(as_text(*bytes));
}

Result<MetaValue> parse_array(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  const auto element = parse_meta_type(text.substr(0, first));
  if (second == std::string_view::npos || !element)
    return make_error(ErrorCode::kCorrupt, "ballast.origin: not a list");
  BALLAST_TRY(const uint64_t count, parse_number<uint64_t>(std::string(text.substr(first + 1, second - first - 1))));
  BALLAST_TRY(const std::string encoded, parse_hex_text(text.substr(second + 1)));
  BALLAST_TRY(MetaArray array, MetaArray::decode(*element, count, as_bytes(encoded)));
  return MetaValue(std::move(array));
}

Result<MetaValue> parse_value(const std::string& type, std::string text) {
  if (type == "s") return MetaValue(std::move(text));
  if (type == "b") return MetaValue(text == "1");
  if (type == "a") return parse_array(text);
  if (type == "x") {
    BALLAST_TRY(std::string bytes, parse_hex_text(text));
    return MetaValue(std::move(bytes));
  }
  if (type == "i") {
    BALLAST_TRY(const int64_t value, parse_number<int64_t>(text));
    return MetaValue(value);
  }
  if (type == "u") {
    BALLAST_TRY(const uint64_t value, parse_number<uint64_t>(text));
    return MetaValue(value);
  }
  if (type != "f") return make_error(ErrorCode::kCorrupt, "ballast.origin: unknown kind of metadata value");
  BALLAST_TRY(const uint64_t bits, parse_number<uint64_t>(text, 16));
  return MetaValue(std::bit_cast<double>(bits));
}

Result<std::string> next_string(JsonReader& json) {
  BALLAST_TRY(const bool more, json.next_element());
  if (!more) return json.error_here("too short a list");
  return json.read_string();
}

// The end of an entry: nothing more, or that its key stands in hexadecimal.
Status read_key_form(JsonReader& json, std::string& key) {
  BALLAST_TRY(const bool marked, json.next_element());
  if (!marked) return {};
  BALLAST_TRY(const std::string mark, json.read_string());
  BALLAST_TRY(const bool extra, json.next_element());
  if (extra || mark != kHexKey) return json.error_here("too long a list");
  BALLAST_TRY(key, parse_hex_text(key));
  return {};
}

Result<std::vector<MetaEntry>> read_metadata(JsonReader& json) {
  std::vector<MetaEntry> metadata;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return metadata;
    BALLAST_CHECK(json.enter_array());
    BALLAST_TRY(std::string key, next_string(json));
    BALLAST_TRY(const std::string type, next_string(json));
    BALLAST_TRY(std::string text, next_string(json));
    BALLAST_CHECK(read_key_form(json, key));
    BALLAST_TRY(MetaValue value, parse_value(type, std::move(text)));
    metadata.push_back({std::move(key), std::move(value)});
  }
}

// What the carrier itself says, origin excepted: changing it makes the origin stale.
std::string carrier_digest(const Description& carrier) {
  JsonWriter json;
  json.begin_array();
  write_metadata(json, carrier.metadata);
  if (carrier.config) json.string(carrier.config->schema).string(carrier.config->text);
  json.end_array();
  return to_hex(blake3(as_bytes(json.take())));
}

// ---------------------------------------------------------------- tensors

using TensorsByName = std::map<std::string_view, const TensorInfo*>;

TensorsByName tensors_by_name(const Description& description) {
  TensorsByName by_name;
  for (const TensorInfo& tensor : description.tensors) by_name[tensor.name] = &tensor;
  return by_name;
}

// Writes the fields of `source` that `written` does not imply; false when there are none.
bool write_tensor_fields(JsonWriter& json, const TensorInfo& source, const TensorInfo& written) {
  bool any = false;
  const auto key = [&](std::string_view name) {
    any = true;
    return json.key(name), &json;
  };
  if (source.dtype != written.dtype) key("dtype")->string(dtype_name(source.dtype));
  if (source.scheme() != written.scheme()) key("scheme")->string(source.scheme());
  if (!(source.shape == written.shape)) key("shape")->numbers(source.shape.dims());
  if (source.requires_grad.value_or(false)) key("requires_grad")->boolean(true);
  if (source.param_id) key("param_id")->string(std::to_string(*source.param_id));
  if (!source.stored_form().empty()) key("form")->string(source.stored_form());
  return any;
}

void write_tensors(JsonWriter& out, const Description& source, const Description& written) {
  const TensorsByName by_name = tensors_by_name(written);
  bool needed = false;
  JsonWriter list;
  list.begin_array();
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    const TensorInfo& tensor = source.tensors[i];
    needed = needed || i >= written.tensors.size() || written.tensors[i].name != tensor.name;
    JsonWriter fields;
    fields.begin_object().key("name").string(tensor.name);
    const bool any = write_tensor_fields(fields, tensor, *by_name.at(tensor.name));
    fields.end_object();
    needed = needed || any;
    if (any) list.raw(fields.take());
    else list.string(tensor.name);
  }
  list.end_array();
  // Absent: the tensors stand in the carrier as they are, in its order, without any of these fields.
  if (needed) out.key("tensors").raw(list.take());
}

// The tensor as the carrier holds it, without what only an origin may add.
TensorInfo bare_tensor(const TensorInfo& carried) {
  TensorInfo bare;
  bare.name = carried.name;
  bare.dtype = carried.dtype;
  bare.shape = carried.shape;
  bare.byte_size = carried.byte_size;
  bare.twin = carried.twin;
  bare.set_scheme(carried.scheme());
  return bare;
}

Result<TensorInfo> find_bare(const TensorsByName& carrier, const std::string& name) {
  const auto found = carrier.find(name);
  if (found != carrier.end()) return bare_tensor(*found->second);
  return make_error(ErrorCode::kCorrupt, fmt::format("ballast.origin names a tensor \"{}\" that is not there", name));
}

Status read_tensor_field(JsonReader& json, const std::string& field, TensorInfo& tensor) {
  if (field == "dtype") {
    BALLAST_TRY(const std::string name, json.read_string());
    const auto dtype = parse_dtype(name);
    if (!dtype) return json.error_here("an unknown dtype");
    tensor.dtype = *dtype;
  } else if (field == "scheme") {
    BALLAST_TRY(std::string scheme, json.read_string());
    tensor.set_scheme(std::move(scheme));
  } else if (field == "shape") {
    BALLAST_TRY(const std::vector<uint64_t> dims, json.read_u64_array());
    tensor.shape = Shape(dims);
  } else if (field == "requires_grad") {
    BALLAST_TRY(tensor.requires_grad, json.read_bool());
  } else if (field == "param_id") {
    BALLAST_TRY(const std::string id, json.read_string());
    BALLAST_TRY(tensor.param_id, parse_number<uint64_t>(id));
  } else if (field == "form") {
    BALLAST_TRY(std::string form, json.read_string());
    tensor.set_stored_form(std::move(form));
  } else {
    return json.error_here("an unknown field");
  }
  return {};
}

Result<TensorInfo> read_origin_tensor(JsonReader& json, const TensorsByName& carrier) {
  BALLAST_TRY(const JsonType type, json.peek());
  if (type == JsonType::kString) {
    BALLAST_TRY(const std::string name, json.read_string());
    return find_bare(carrier, name);
  }
  BALLAST_CHECK(json.enter_object());
  std::string field;
  BALLAST_TRY(const bool first, json.next_key(field));
  if (!first || field != "name") return json.error_here("a tensor without a name");
  BALLAST_TRY(const std::string name, json.read_string());
  BALLAST_TRY(TensorInfo tensor, find_bare(carrier, name));
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(field));
    if (!more) break;
    BALLAST_CHECK(read_tensor_field(json, field, tensor));
  }
  // The origin may rename a size, never invent one: later layers trust byte_size against shape.
  const auto expected = packed_size(tensor.shape, tensor.dtype);
  if (expected && *expected != tensor.byte_size) {
    return make_error(ErrorCode::kCorrupt, fmt::format("ballast.origin: shape {} of \"{}\" does not fit its {} bytes",
                                                       tensor.shape.to_string(), tensor.name, tensor.byte_size));
  }
  return tensor;
}

Result<std::vector<TensorInfo>> read_origin_tensors(JsonReader& json, const Description& carrier) {
  const TensorsByName by_name = tensors_by_name(carrier);
  std::vector<TensorInfo> tensors;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) break;
    BALLAST_TRY(TensorInfo tensor, read_origin_tensor(json, by_name));
    tensors.push_back(std::move(tensor));
  }
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  if (tensors.size() != carrier.tensors.size() || std::ranges::adjacent_find(names) != names.end()) {
    return make_error(ErrorCode::kCorrupt, "ballast.origin does not list each tensor once");
  }
  return tensors;
}

Result<ModelConfig> read_config(JsonReader& json) {
  BALLAST_CHECK(json.enter_array());
  BALLAST_TRY(std::string schema, next_string(json));
  BALLAST_TRY(std::string text, next_string(json));
  BALLAST_TRY(const bool extra, json.next_element());
  if (extra) return json.error_here("too long a list");
  return ModelConfig{std::move(schema), std::move(text)};
}

struct ParsedOrigin {
  Description description;
  std::string digest;
  std::string carrier;
  uint64_t version = 0;
  bool has_tensors = false;
};

Status read_field(JsonReader& json, const std::string& key, const Description& carrier, ParsedOrigin& origin) {
  Description& description = origin.description;
  if (key == "tensors") {
    origin.has_tensors = true;
    BALLAST_TRY(description.tensors, read_origin_tensors(json, carrier));
    return {};
  }
  if (key == "metadata") {
    BALLAST_TRY(description.metadata, read_metadata(json));
    return {};
  }
  if (key == "config") {
    BALLAST_TRY(description.config, read_config(json));
    return {};
  }
  if (key == "origin") {
    BALLAST_TRY(origin.version, json.read_u64());
    return {};
  }
  const std::map<std::string_view, std::string*> texts = {
      {"digest", &origin.digest},        {"carrier", &origin.carrier},        {"format", &description.format},
      {"version", &description.version}, {"producer", &description.producer}, {"form", &description.stored_form}};
  const auto found = texts.find(key);
  if (found == texts.end()) return json.error_here("an unknown field");
  BALLAST_TRY(*found->second, json.read_string());
  return {};
}

Result<ParsedOrigin> parse_origin(const std::string& value, const Description& carrier) {
  JsonReader json(value, "ballast.origin");
  ParsedOrigin origin;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    BALLAST_CHECK(read_field(json, key, carrier, origin));
  }
  BALLAST_CHECK(json.finish());
  if (origin.version != kOriginVersion) {
    return make_error(ErrorCode::kUnsupported, fmt::format("ballast.origin has version {}", origin.version));
  }
  if (!origin.has_tensors) {
    for (const TensorInfo& tensor : carrier.tensors) origin.description.tensors.push_back(bare_tensor(tensor));
  }
  return origin;
}

}  // namespace

std::string encode_origin(const Description& source, const Description& written, const Digest& content) {
  JsonWriter json;
  json.begin_object().key("origin").number(kOriginVersion);
  json.key("digest").string(to_hex(content)).key("carrier").string(carrier_digest(written));
  json.key("format").string(source.format).key("version").string(source.version);
  if (!source.producer.empty()) json.key("producer").string(source.producer);
  if (!source.stored_form.empty()) json.key("form").string(source.stored_form);
  if (!source.metadata.empty()) {
    json.key("metadata");
    write_metadata(json, source.metadata);
  }
  if (source.config) {
    json.key("config").begin_array().string(source.config->schema).string(source.config->text).end_array();
  }
  write_tensors(json, source, written);
  json.end_object();
  return json.take();
}

Result<Description> decode_origin(const std::string& value, const Description& carrier, const Digest& content) {
  BALLAST_TRY(ParsedOrigin origin, parse_origin(value, carrier));
  if (origin.digest != to_hex(content)) {
    return make_error(ErrorCode::kCorrupt, "the tensors were changed after the conversion that left ballast.origin");
  }
  if (origin.carrier != carrier_digest(carrier)) {
    return make_error(ErrorCode::kCorrupt, "the metadata was changed after the conversion that left ballast.origin");
  }
  return std::move(origin.description);
}

std::string origin_summary(const std::string& value) {
  JsonReader json(value, "ballast.origin");
  std::string key;
  std::string format;
  std::string version;
  if (!json.enter_object()) return "";
  for (;;) {
    const auto more = json.next_key(key);
    if (!more || !*more) break;
    if (key == "format" || key == "version") {
      auto text = json.read_string();
      if (!text) return "";
      (key == "format" ? format : version) = std::move(*text);
    } else if (!json.skip_value()) {
      return "";
    }
  }
  return format.empty() ? "" : format + " " + version;
}

}  // namespace ballast
