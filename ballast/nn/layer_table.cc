#include "ballast/nn/layer_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/json.h"
#include "ballast/base/near_miss.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

constexpr auto kListDialect = JsonReader::Dialect::kPython;

struct Entry {
  std::string type;
  std::string args = "null";
};

Result<Entry> read_entry(JsonReader& json) {
  BALLAST_TRY(const JsonType kind, json.peek());
  if (kind != JsonType::kObject) return json.error_here("a layer must be an object {\"type\", \"args\"}");
  Entry entry;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "type") {
      BALLAST_TRY(entry.type, json.read_string());
    } else if (key == "args") {
      BALLAST_TRY(entry.args, json.read_raw());
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
  if (entry.type.empty()) return json.error_here("a layer without \"type\"");
  return entry;
}

Result<std::vector<Entry>> read_list(std::string_view text, const std::string& where) {
  JsonReader json(text, where, 0, kListDialect);
  std::vector<Entry> entries;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) break;
    BALLAST_TRY(Entry entry, read_entry(json));
    entries.push_back(std::move(entry));
  }
  BALLAST_CHECK(json.finish());
  return entries;
}

}  // namespace

size_t Layer::add_tensor(std::string key, Shape shape, Initial initial, bool trained) {
  tensors_.push_back({std::move(key), std::move(shape), initial, trained});
  return tensors_.size() - 1;
}

LayerTable::LayerTable() {
  add_linear_layers(types_);
  add_image_layers(types_);
  add_activation_layers(types_);
  add_pooling_layers(types_);
  add_norm_layers(types_);
  add_embedding_layers(types_);
  add_attention_layers(types_);
  add_block_layers(types_);
  add_nested_layers(types_);
}

const LayerType* LayerTable::find(std::string_view name) const {
  const auto found = std::ranges::find(types_, name, &LayerType::name);
  return found == types_.end() ? nullptr : &*found;
}

Status LayerTable::register_layer(LayerType type) {
  if (find(type.name) != nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("there is a layer type \"{}\" already: give yours another name", type.name));
  }
  types_.push_back(std::move(type));
  return {};
}

Result<LayerPtr> LayerTable::build(std::string_view type, std::string_view args, size_t index) const {
  const LayerType* row = find(type);
  if (row == nullptr) {
    std::vector<std::string_view> names;
    for (const LayerType& known : types_) names.push_back(known.name);
    const std::string_view near = nearest(type, names);
    const std::string hint =
        near.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("layer {}: there is no layer type \"{}\"; {}", index, type, hint));
  }
  BALLAST_TRY(const LayerArgs parsed,
              LayerArgs::parse(args, row->args, row->ignores_unknown, fmt::format("layer {} ({})", index, type)));
  BALLAST_TRY(LayerPtr layer, row->build(parsed, *this));
  layer->type_ = row->name;
  layer->args_ = parsed.json();
  layer->netcl_saves_ = row->netcl_saves;
  return layer;
}

Result<std::vector<LayerPtr>> LayerTable::build_all(std::string_view list, const std::string& where) const {
  auto entries = read_list(list, where);
  if (!entries) return make_error(ErrorCode::kInvalidArgument, entries.error().message);
  std::vector<LayerPtr> layers;
  for (const Entry& entry : *entries) {
    auto layer = build(entry.type, entry.args, layers.size());
    if (!layer) return std::move(layer).error().with_context(where);
    layers.push_back(std::move(*layer));
  }
  return layers;
}

std::string layer_list_json(std::span<const LayerPtr> layers) {
  std::string text = "[";
  for (const LayerPtr& layer : layers) {
    text +=
        fmt::format("{}{{\"type\": \"{}\", \"args\": {}}}", text.size() > 1 ? ", " : "", layer->type(), layer->args());
  }
  return text + "]";
}

}  // namespace ballast::nn
