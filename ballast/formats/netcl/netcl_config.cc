#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ballast/base/json.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast {

namespace {

constexpr auto kDialect = JsonReader::Dialect::kPython;

// A value of the top object, and where it begins in the text.
struct RawValue {
  std::string_view text;
  uint64_t offset = 0;
};

struct TopLevel {
  std::optional<RawValue> type, config, layers, version, about;
};

Result<RawValue> read_raw_value(JsonReader& json) {
  BALLAST_TRY([[maybe_unused]] const JsonType type, json.peek());
  const uint64_t offset = json.offset();
  BALLAST_TRY(const std::string_view text, json.read_raw());
  return RawValue{text, offset};
}

// netcl's JSON reader lets the last of two equal keys win; a file that says two things is refused here.
Result<TopLevel> parse_top_level(std::string_view text, const std::string& where) {
  JsonReader json(text, where, 0, kDialect);
  TopLevel top;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    std::optional<RawValue>* field = key == "type"      ? &top.type
                                     : key == "config"  ? &top.config
                                     : key == "layers"  ? &top.layers
                                     : key == "version" ? &top.version
                                     : key == "ballast" ? &top.about
                                                        : nullptr;
    if (field != nullptr && *field) return json.error_here(fmt::format("\"{}\" stands twice", key));
    BALLAST_TRY(const RawValue value, read_raw_value(json));
    if (field != nullptr) *field = value;
  }
  BALLAST_CHECK(json.finish());
  return top;
}

class LayerListReader {
 public:
  // `flat`: arguments stand beside the type instead of in "args".
  LayerListReader(const RawValue& list, const std::string& where, bool flat)
      : where_(where), json_(list.text, where, list.offset, kDialect), flat_(flat) {}

  Status read(const std::function<Status(const NetclLayer&)>& visit) {
    BALLAST_TRY(const JsonType type, json_.peek());
    if (type != JsonType::kArray) return json_.error_here("the layers must be a list");
    BALLAST_CHECK(json_.enter_array());
    for (size_t index = 0;; ++index) {
      BALLAST_TRY(const bool more, json_.next_element());
      if (!more) return json_.finish();
      BALLAST_TRY(const RawValue entry, read_raw_value(json_));
      BALLAST_TRY(const NetclLayer layer, read_layer(entry, index));
      BALLAST_CHECK(visit(layer));
    }
  }

 private:
  Result<NetclLayer> read_layer(const RawValue& entry, size_t index) {
    JsonReader json(entry.text, fmt::format("{}: layer {}", where_, index), entry.offset, kDialect);
    BALLAST_TRY(const JsonType type, json.peek());
    if (type != JsonType::kObject) return json.error_here("a layer must be an object");
    NetclLayer layer;
    layer.index = index;
    layer.raw = entry.text;
    bool has_type = false, has_args = false;
    BALLAST_CHECK(json.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) break;
      if (key == "type") {
        if (has_type) return json.error_here("\"type\" stands twice");
        has_type = true;
        BALLAST_TRY(layer.type, json.read_string());
      } else if (flat_) {
        BALLAST_TRY(const std::string_view value, json.read_raw());
        layer.args.push_back({key, value});
      } else if (key == "args") {
        if (has_args) return json.error_here("\"args\" stands twice");
        has_args = true;
        BALLAST_CHECK(read_args(json, layer));
      } else {
        BALLAST_CHECK(json.skip_value());
      }
    }
    if (!has_type) return json.error_here("a layer without \"type\"");
    return layer;
  }

  static Status read_args(JsonReader& json, NetclLayer& layer) {
    BALLAST_TRY(const JsonType type, json.peek());
    if (type == JsonType::kNull) return json.read_null();
    if (type != JsonType::kObject) return json.error_here("the arguments of a layer must be an object");
    BALLAST_CHECK(json.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) return {};
      BALLAST_TRY(const std::string_view value, json.read_raw());
      layer.args.push_back({key, value});
    }
  }

  std::string where_;
  JsonReader json_;
  bool flat_;
};

bool is_string(std::string_view raw, std::string_view expected) {
  const auto text = JsonReader(raw, "").read_string();
  return text && *text == expected;
}

Error netcl_config_error(const std::string& where, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", where, what));
}

// ---------------------------------------------------------------- the other version

void append_member(std::string& json, std::string_view key, std::string_view value) {
  if (json.size() > 1) json += ", ";
  append_json_string(json, key);
  json += ": ";
  json += value;
}

// A convolution with its bias spelled out, as netcl writes it since 0.1.4.
std::string layer_with_bias(const NetclLayer& layer, bool bias) {
  std::string args = "{";
  for (const NetclArg& arg : layer.args) append_member(args, arg.name, arg.value);
  append_member(args, "bias", bias ? "true" : "false");
  std::string type;
  append_json_string(type, layer.type);
  std::string entry = "{";
  append_member(entry, "type", type);
  append_member(entry, "args", args + "}");
  return entry + "}";
}

Result<std::string> layers_with_bias(const std::string& text, std::span<const TensorInfo> tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  std::string list = "[";
  BALLAST_TRY([[maybe_unused]] const NetclModel model,
              parse_netcl_config(text, "config", [&](const NetclLayer& layer) -> Status {
                if (layer.index > 0) list += ", ";
                const std::string bias_name = fmt::format("{}:bias", layer.index);
                const bool has_bias = std::ranges::binary_search(names, std::string_view(bias_name));
                if (layer.type == "Conv2d" && layer.find_arg("bias") == nullptr)
                  list += layer_with_bias(layer, has_bias);
                else list += layer.raw;
                return {};
              }));
  return list + "]";
}

// The top object without its version and format, open at the end.
Result<std::string> without_version(const std::string& text, const std::optional<std::string>& config) {
  JsonReader json(text, "config", 0, kDialect);
  std::string out = "{";
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return out;
    BALLAST_TRY(const std::string_view value, json.read_raw());
    if (key == "version" || key == "format") continue;
    append_member(out, key, key == "config" && config ? std::string_view(*config) : value);
  }
}

}  // namespace

const NetclArg* NetclLayer::find_arg(std::string_view name) const {
  const auto found = std::ranges::find(args, name, &NetclArg::name);
  return found == args.end() ? nullptr : &*found;
}

Result<NetclModel> parse_netcl_config(std::string_view text, const std::string& where,
                                      const std::function<Status(const NetclLayer&)>& visit) {
  BALLAST_TRY(TopLevel top, parse_top_level(text, where));
  if (!top.type || !is_string(top.type->text, "Sequential")) {
    return netcl_config_error(where, "\"type\" must be \"Sequential\", the only kind of model that netcl saves");
  }
  if (top.config && top.config->text == "null") top.config.reset();
  if (!top.config && !top.layers)
    return netcl_config_error(where, "neither \"config\" nor \"layers\" lists the layers");

  NetclModel model;
  if (top.version) model.version = top.version->text;
  if (top.about && top.about->text.starts_with('{')) model.about = top.about->text;
  const bool flat = !top.config;
  const std::string list_where = fmt::format("{}: \"{}\"", where, flat ? "layers" : "config");
  LayerListReader list(flat ? *top.layers : *top.config, list_where, flat);
  BALLAST_CHECK(list.read([&](const NetclLayer& layer) -> Status {
    model.has_convolution = model.has_convolution || layer.type == "Conv2d";
    model.has_dilation = model.has_dilation || (layer.type == "Conv2d" && layer.find_arg("dilation") != nullptr);
    return visit ? visit(layer) : Status();
  }));
  return model;
}

Result<std::string> netcl_config_as_version_2(const std::string& text, std::span<const TensorInfo> tensors) {
  BALLAST_TRY(const NetclModel model, parse_netcl_config(text, "config"));
  if (model.version != "1") return text;
  BALLAST_TRY(const std::string layers, layers_with_bias(text, tensors));
  BALLAST_TRY(std::string out, without_version(text, layers));
  append_member(out, "version", "2");
  append_member(out, "format", "\"netcl.single-file\"");
  return out + "}";
}

Result<std::string> netcl_config_as_version_1(const std::string& text) {
  BALLAST_TRY(const NetclModel model, parse_netcl_config(text, "config"));
  if (model.version == "1") return text;
  BALLAST_TRY(std::string out, without_version(text, std::nullopt));
  append_member(out, "version", "1");
  return out + "}";
}

std::string netcl_producer(const NetclModel& model) {
  if (model.version == "1") return "netcl 0.1.0 to 0.1.3";
  if (model.version != "2") return {};
  if (!model.has_convolution) return "netcl 0.1.4 or later";
  return model.has_dilation ? "netcl 0.2.8 or later" : "netcl 0.1.4 to 0.2.7";
}

}  // namespace ballast
