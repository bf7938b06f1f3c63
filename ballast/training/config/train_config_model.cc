// [model]
#include <fmt/format.h>

#include "ballast/training/config/train_config_sections.h"

namespace ballast::train_config {

namespace {

// An entry has "args", or its other keys are the args, as in netcl's older spelling.
Status append_layer(JsonWriter& json, const ConfigSection& section, const ConfigValue& layer, size_t index) {
  const auto bad = [&](std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument, section.error("layers", fmt::format("{}: {}", index, what)).message);
  };
  if (layer.kind != ConfigValue::Kind::kTable) return bad(fmt::format("is {}; a layer is a table", layer.describe()));
  const ConfigValue* type = layer.find("type");
  if (type == nullptr || type->kind != ConfigValue::Kind::kText)
    return bad("has no type; a layer is { type = \"Linear\", args = { ... } }");
  const ConfigValue* args = layer.find("args");
  if (args != nullptr && args->kind != ConfigValue::Kind::kTable) return bad("args must be a table");
  if (args != nullptr && layer.members.size() != 2) return bad("a layer with args has nothing but type and args");
  json.begin_object().key("type").string(type->text).key("args").begin_object();
  for (const ConfigMember& member : (args != nullptr ? *args : layer).members) {
    if (args == nullptr && member.name == "type") continue;
    json.key(member.name);
    append_json(json, member.value);
  }
  json.end_object().end_object();
  return {};
}

Result<std::string> read_layers(ConfigSection& section) {
  const ConfigValue* layers = section.find("layers");
  if (layers == nullptr) return section.error("layers", "is missing; a sequential model is a list of layers");
  if (layers->kind != ConfigValue::Kind::kList || layers->items.empty())
    return section.wrong("layers", *layers, "a list of layers");
  JsonWriter json;
  json.begin_array();
  for (size_t i = 0; i < layers->items.size(); ++i) BALLAST_CHECK(append_layer(json, section, layers->items[i], i));
  json.end_array();
  return json.take();
}

Status read_mlp(ConfigSection& section, MlpSpec& mlp) {
  BALLAST_TRY(mlp.in, section.count("in", mlp.in, 0, kMostSide));
  BALLAST_TRY(mlp.hidden, section.counts("hidden", 1));
  BALLAST_TRY(mlp.out, section.count("out", mlp.out, 0, kMostSide));
  BALLAST_TRY(mlp.activation,
              section.choice("activation", mlp.activation, {"relu", "leaky_relu", "sigmoid", "tanh", "gelu", "silu"}));
  BALLAST_TRY(mlp.dropout, section.real("dropout", mlp.dropout, kPart));
  BALLAST_TRY(mlp.bias, section.truth("bias", mlp.bias));
  return {};
}

Status read_gpt(ConfigSection& section, GptSpec& gpt) {
  BALLAST_TRY(gpt.vocab_size, section.count("vocab_size", gpt.vocab_size, 0, kMostSide));
  BALLAST_TRY(gpt.context_length, section.count("context_length", gpt.context_length, 1, kMostSide));
  BALLAST_TRY(gpt.embed_dim, section.count("embed_dim", gpt.embed_dim, 1, kMostSide));
  BALLAST_TRY(gpt.num_layers, section.count("num_layers", gpt.num_layers, 1, 10000));
  BALLAST_TRY(gpt.num_heads, section.count("num_heads", gpt.num_heads, 1, kMostSide));
  BALLAST_TRY(gpt.mlp_ratio, section.count("mlp_ratio", gpt.mlp_ratio, 1, 1024));
  BALLAST_TRY(gpt.gelu, section.choice("gelu", gpt.gelu, {"erf", "tanh"}));
  BALLAST_TRY(gpt.dropout, section.real("dropout", gpt.dropout, kPart));
  if (gpt.embed_dim % gpt.num_heads == 0) return {};
  return section.error("embed_dim", fmt::format("is {}, which {} heads do not divide", gpt.embed_dim, gpt.num_heads));
}

}  // namespace

Status read_model(const Sections& sections, ModelSpec& model) {
  BALLAST_TRY(ConfigSection section, sections.open("model"));
  BALLAST_TRY(model.init, section.path("init"));
  if (model.init.empty() || section.has("kind")) {
    BALLAST_TRY(model.kind, section.choice("kind", "", {"mlp", "sequential", "gpt"}));
  }
  declare_foreign(section, "kind", model.kind,
                  {{"layers", {"sequential"}},
                   {"in", {"mlp"}},
                   {"hidden", {"mlp"}},
                   {"out", {"mlp"}},
                   {"activation", {"mlp"}},
                   {"bias", {"mlp"}},
                   {"vocab_size", {"gpt"}},
                   {"context_length", {"gpt"}},
                   {"embed_dim", {"gpt"}},
                   {"num_layers", {"gpt"}},
                   {"num_heads", {"gpt"}},
                   {"mlp_ratio", {"gpt"}},
                   {"gelu", {"gpt"}},
                   {"dropout", {"mlp", "gpt"}}});
  section.also_called("type", "kind");
  section.also_called("context", "context_length");
  section.also_called("width", "embed_dim");
  section.also_called("heads", "num_heads");
  section.also_called("path", "init");
  if (model.kind == "sequential") {
    BALLAST_TRY(model.layers, read_layers(section));
  } else if (model.kind == "mlp") {
    BALLAST_CHECK(read_mlp(section, model.mlp));
  } else if (model.kind == "gpt") {
    BALLAST_CHECK(read_gpt(section, model.gpt));
  }
  return section.finish();
}

}  // namespace ballast::train_config
