#include "ballast/training/make_trainable.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/base/json.h"
#include "ballast/io/guard.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/model_config.h"
#include "ballast/nn/about.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/training/fill_in.h"
#include "ballast/training/trainable_layers.h"
#include "ballast/training/trainable_text.h"

namespace ballast {

namespace {

LossConfig loss_config(const LossSpec& spec) {
  LossConfig loss;
  loss.name = spec.type;
  loss.reduction = spec.reduction;
  if (spec.type == "smooth_l1") loss.beta = spec.beta;
  if (spec.type == "hinge") loss.margin = spec.margin;
  return loss;
}

std::string gpt_config(const GptSpec& gpt, uint64_t vocabulary) {
  JsonWriter json;
  json.begin_object();
  json.key("vocab_size").number(gpt.vocab_size != 0 ? gpt.vocab_size : vocabulary);
  json.key("context_length").number(gpt.context_length).key("embed_dim").number(gpt.embed_dim);
  json.key("num_layers").number(gpt.num_layers).key("num_heads").number(gpt.num_heads);
  json.key("mlp_ratio").number(gpt.mlp_ratio).key("dropout").real(gpt.dropout).key("gelu").string(gpt.gelu);
  json.end_object();
  return json.take();
}

Result<const ModelKind*> find_kind(std::string_view name) {
  for (const ModelKind& kind : all_model_kinds()) {
    if (kind.name == name) return &kind;
  }
  return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no kind of model \"{}\"", name));
}

Result<bool> is_layers(const Archive& archive) {
  BALLAST_TRY(const auto listing, nn::read_layer_listing(archive.description()));
  return listing.has_value();
}

// A model that runs, but whose config is another program's.
bool is_foreign_model(const Archive& archive, const std::string& path) {
  if (runnable_config(archive.description())) return true;
  if (!takes_config_from_folder(archive.description())) return false;
  const auto folder = read_model_folder(path);
  return folder && folder->config;
}

Result<ModelDescription> describe(const Archive& archive, const std::string& path) {
  const auto config = runnable_config(archive.description());
  if (config && config->schema == "gptrs") return parse_model_config(config->text, path);
  if (is_foreign_model(archive, path)) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: fine-tuning models of other programs (Hugging Face folders, GGUF files) is not "
                                  "supported yet; [model] init takes a gpt.rs checkpoint (.gptrs) or a model of layers "
                                  "(.netcl, .safetensors) that was trained here",
                                  path));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the file does not say what model it is: [model] init takes a gpt.rs checkpoint "
                                "(.gptrs) or a model of layers (.netcl, .safetensors)",
                                path));
}

// What the model will have to know when it runs by itself. Rows of an array may be pictures or not; nobody knows.
nn::About about_data(const DataSpec& spec, const Dataset& data) {
  nn::About about;
  about.classes.assign(data.class_names().begin(), data.class_names().end());
  const Shape& shape = data.layout().feature_shape;
  if (!spec.is_table() && shape.rank() != 3) return about;
  about.input.emplace().shape.assign(shape.dims().begin(), shape.dims().end());
  // Arrays of an NPZ file have a scale of their own; pictures and IDX files hold bytes.
  if (spec.kind == "images" || spec.kind == "idx") about.input->divide_by = spec.divide_by;
  return about;
}

Result<std::unique_ptr<Trainable>> make_layers(std::unique_ptr<nn::Sequential> model, const TrainConfig& config,
                                               const TrainingData& data, const LossSpec& loss) {
  model->set_about(nn::about_json(about_data(config.data, *data.training)));
  return make_layers_trainable(std::move(model), loss_config(loss));
}

Result<std::unique_ptr<Trainable>> load_trainable(const TrainConfig& config, const TrainingData& data,
                                                  const LossSpec& loss) {
  const std::string& path = config.model.init;
  BALLAST_TRY(const Archive archive, open_archive(path));
  BALLAST_TRY(const bool layers, is_layers(archive));
  if (layers) {
    BALLAST_TRY(auto loaded, netcl::load_model(path));
    return make_layers(std::move(loaded.model), config, data, loss);
  }
  BALLAST_TRY(const ModelDescription model, describe(archive, path));
  BALLAST_TRY(const ModelKind* kind, find_kind(model.kind));
  return load_text_trainable(*kind, model.config, path);
}

// The layer that a configuration's word means.
std::string activation_layer(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLayers = {{{"relu", "ReLU"},
                                                                                     {"leaky_relu", "LeakyReLU"},
                                                                                     {"sigmoid", "Sigmoid"},
                                                                                     {"tanh", "Tanh"},
                                                                                     {"gelu", "GELU"},
                                                                                     {"silu", "SiLU"}}};
  for (const auto& [name, layer] : kLayers) {
    if (name == word) return std::string(layer);
  }
  return std::string(word);
}

Result<std::unique_ptr<nn::Sequential>> make_mlp(const TrainConfig& config, const ExampleLayout& layout) {
  const MlpSpec& mlp = config.model.mlp;
  std::vector<uint64_t> sizes{mlp.in != 0 ? mlp.in : layout.feature_count()};
  sizes.insert(sizes.end(), mlp.hidden.begin(), mlp.hidden.end());
  const uint64_t targets = layout.targets == TargetKind::kClasses ? layout.classes : layout.target_count();
  sizes.push_back(mlp.out != 0 ? mlp.out : targets);
  nn::MlpOptions options{.activation = activation_layer(mlp.activation), .dropout = mlp.dropout, .bias = mlp.bias};
  options.flatten = layout.feature_shape.rank() > 1;
  return nn::build_mlp(sizes, options, {.seed = config.train.seed});
}

}  // namespace

Result<std::unique_ptr<Trainable>> make_trainable(const TrainConfig& config, const TrainingData& data) {
  return guarded([&]() -> Result<std::unique_ptr<Trainable>> {
    const ExampleLayout& layout = data.training->layout();
    BALLAST_TRY(const LossSpec loss, choose_loss(config.loss, layout));
    if (!config.model.init.empty()) return load_trainable(config, data, loss);
    if (config.model.kind == "gpt") {
      BALLAST_TRY(const ModelKind* kind, find_kind("gpt"));
      return make_text_trainable(*kind, {.text = gpt_config(config.model.gpt, layout.classes)}, config.train.seed);
    }
    std::unique_ptr<nn::Sequential> model;
    if (config.model.kind == "mlp") {
      BALLAST_TRY(model, make_mlp(config, layout));
    } else {
      BALLAST_TRY(model, nn::build_sequential(config.model.layers, {.seed = config.train.seed}));
    }
    return make_layers(std::move(model), config, data, loss);
  });
}

Result<uint64_t> context_of(const ModelSpec& model) {
  return guarded([&]() -> Result<uint64_t> {
    if (model.init.empty()) return model.kind == "gpt" ? model.gpt.context_length : 0;
    BALLAST_TRY(const Archive archive, open_archive(model.init));
    BALLAST_TRY(const bool layers, is_layers(archive));
    if (layers) return uint64_t{0};
    BALLAST_TRY(const ModelDescription description, describe(archive, model.init));
    BALLAST_TRY(const ModelKind* kind, find_kind(description.kind));
    std::vector<WantedParam> wanted;
    ParamLoader ask(wanted);
    BALLAST_TRY(const auto built, kind->build(description.config, ask));
    return built->as_causal_lm() != nullptr ? built->as_causal_lm()->context_length() : 0;
  });
}

}  // namespace ballast
