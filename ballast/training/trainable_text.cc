#include "ballast/training/trainable_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/base/counter_random.h"
#include "ballast/formats/format.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/tensor/cast.h"
#include "ballast/training/tokenizer_files.h"

namespace ballast {

namespace {

constexpr double kDeviation = 0.02;

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// How a parameter begins follows from its name: kinds of text models spell theirs alike.
struct Beginning {
  double value = 0;
  double deviation = 0;
};
Beginning beginning_of(const WantedParam& param, uint64_t layers) {
  const std::string_view leaf = last_part(param.name);
  if (leaf == "gamma") return {.value = 1};
  if (leaf == "beta" || leaf.starts_with("b_")) return {};
  const bool ends_branch = leaf == "w_out" || leaf == "w_down";
  return {.deviation = ends_branch ? kDeviation / std::sqrt(2.0 * static_cast<double>(layers)) : kDeviation};
}

// Box and Muller's normal numbers, the i-th without those before it.
double normal(uint64_t seed, uint64_t i) {
  const double radius = std::sqrt(-2 * std::log(1 - counter_uniform(seed, 2 * (i / 2))));
  const double angle = 2 * std::numbers::pi * counter_uniform(seed, 2 * (i / 2) + 1);
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

// A seed of its own for each name, so that a parameter begins alike whatever stands beside it.
uint64_t seed_of(uint64_t seed, const std::string& name) {
  uint64_t own = seed;
  for (const char c : name) own = counter_random(own, static_cast<unsigned char>(c));
  return own;
}

void fill(std::span<float> values, const Beginning& beginning, uint64_t seed) {
  for (size_t i = 0; i < values.size(); ++i) {
    const double noise = beginning.deviation == 0 ? 0 : beginning.deviation * normal(seed, i);
    values[i] = static_cast<float>(beginning.value + noise);
  }
}

Result<std::shared_ptr<TrainedParams>> make_params(const std::vector<WantedParam>& wanted) {
  auto params = std::make_shared<TrainedParams>();
  for (const WantedParam& param : wanted) {
    TensorInfo info;
    info.name = param.name;
    info.shape = Shape(param.dims.span());
    info.requires_grad = true;
    BALLAST_TRY([[maybe_unused]] const size_t index, params->add(std::move(info)));
  }
  return params;
}

uint64_t layer_count(const std::vector<WantedParam>& wanted) {
  uint64_t layers = 0;
  for (const WantedParam& param : wanted) layers += last_part(param.name) == "w_qkv" ? 1 : 0;
  return std::max<uint64_t>(layers, 1);
}

class TextTrainable final : public Trainable {
 public:
  static Result<std::unique_ptr<TextTrainable>> make(const ModelKind& kind, const KindConfig& config) {
    auto made = std::make_unique<TextTrainable>();
    made->kind_ = kind.name;
    made->config_ = config;
    ParamLoader ask(made->wanted_);
    BALLAST_CHECK(kind.build(config, ask));
    BALLAST_TRY(made->params_, make_params(made->wanted_));
    BALLAST_TRY(made->store_, ParamStore::open(made->params_));
    ParamLoader take(*made->store_);
    BALLAST_TRY(made->model_, kind.build(config, take));
    if (made->model_->as_causal_lm() == nullptr) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("a {} model does not predict text", kind.name));
    }
    return made;
  }

  void begin(uint64_t seed) {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      fill(params_->values<float>(i), beginning_of(wanted_[i], layer_count(wanted_)), seed_of(seed, wanted_[i].name));
    }
  }

  Status load(const Archive& archive, const std::string& path) {
    for (size_t i = 0; i < wanted_.size(); ++i) BALLAST_CHECK(load_param(archive, path, i));
    return {};
  }

  TrainedParams& params() override { return *params_; }
  ParamStore& store() override { return *store_; }
  std::string_view item_name() const override { return "tokens"; }

  std::vector<Param> trained() const override {
    std::vector<Param> list;
    for (const WantedParam& param : wanted_) list.push_back(*store_->get(param.name));
    return list;
  }

  Status check_layout(const ExampleLayout& layout) const override {
    const CausalLm& model = *model_->as_causal_lm();
    if (layout.features != FeatureKind::kTokens || layout.targets != TargetKind::kTokens) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("a {} model trains on text", kind_));
    }
    if (layout.classes > model.vocab_size()) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("the tokenizer has {} tokens, the model's vocab_size is {}: it must be at least that",
                      layout.classes, model.vocab_size()));
    }
    if (layout.feature_count() > model.context_length()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("examples of {} tokens do not fit the model's context_length of {}",
                                    layout.feature_count(), model.context_length()));
    }
    return {};
  }

  Result<Loss> loss(Context& context, const Batch& batch, Mode) override {
    const CausalLm& model = *model_->as_causal_lm();
    BALLAST_TRY(const Tensor logits, model.forward_sequences(context, batch.feature_ids(), batch.size()));
    Loss loss;
    BALLAST_TRY(loss.value, ops::cross_entropy(context.at("loss"), logits, batch.target_ids()));
    loss.items = batch.target_ids().size();
    return loss;
  }

  std::optional<ModelConfig> model_config() const override { return ModelConfig{"gptrs", config_text()}; }

  Status check_weights_format(std::string_view format) const override {
    if (format != "netcl") return {};
    return make_error(ErrorCode::kInvalidArgument,
                      "weights of a text model cannot be kept as netcl, which holds layers in a row; take safetensors, "
                      "burnpack or gptrs");
  }

  Status check_output(const std::string& path) const override {
    if (path.ends_with(".gptrs") || path.ends_with(".safetensors")) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: a {} model is saved as .gptrs or .safetensors", path, kind_));
  }

  Status save(const std::string& path, std::span<const CompanionFile> companions, bool overwrite) const override {
    BALLAST_CHECK(check_output(path));
    const FormatDriver* format = format_for_extension(path);
    WritePlan plan;
    if (format->name == "safetensors")
      plan.description.metadata.push_back({std::string(kModelConfigKey), config_text()});
    else plan.description.config = model_config();
    for (size_t i = 0; i < wanted_.size(); ++i) {
      plan.add_tensor(params_->params()[i], *std::as_const(*params_).view(i));
    }
    BALLAST_CHECK(nn::create_parents(path));
    AtomicFiles set({.overwrite = overwrite});
    WriteSettings settings;
    settings.set = &set;
    settings.accept_losses = true;  // which parameters train: all of them do
    BALLAST_CHECK(add_companions(set, path, companions));
    BALLAST_CHECK(write_archive(path, *format, plan, settings));
    return set.commit();
  }

 private:
  std::string config_text() const { return fmt::format("{{\"kind\":\"{}\",\"config\":{}}}", kind_, config_.to_own()); }

  Status load_param(const Archive& archive, const std::string& path, size_t i) {
    const std::string& name = wanted_[i].name;
    const auto found = archive.find(name);
    if (!found) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: there is no parameter \"{}\", which a {} model needs", path, name, kind_));
    }
    const TensorInfo& info = archive.tensors()[*found];
    if (!(info.shape == params_->params()[i].shape)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: parameter \"{}\" has shape {}, the model's config asks for {}", path, name,
                                    info.shape.to_string(), params_->params()[i].shape.to_string()));
    }
    params_->set_param_id(i, info.param_id);
    BALLAST_TRY(const Payload payload, archive.payload(*found));
    auto cast = cast_elements(info.dtype, payload.bytes(), DType::kF32, params_->bytes(i));
    if (!cast) return std::move(cast).error().with_context(fmt::format("{}: parameter \"{}\"", path, name));
    return {};
  }

  std::string_view kind_;
  KindConfig config_;
  std::vector<WantedParam> wanted_;
  std::shared_ptr<TrainedParams> params_;
  std::unique_ptr<ParamStore> store_;
  std::unique_ptr<Model> model_;
};

}  // namespace

Result<std::unique_ptr<Trainable>> make_text_trainable(const ModelKind& kind, const KindConfig& config, uint64_t seed) {
  BALLAST_TRY(auto made, TextTrainable::make(kind, config));
  made->begin(seed);
  return std::unique_ptr<Trainable>(std::move(made));
}

Result<std::unique_ptr<Trainable>> load_text_trainable(const ModelKind& kind, const KindConfig& config,
                                                       const std::string& path) {
  BALLAST_TRY(auto made, TextTrainable::make(kind, config));
  BALLAST_TRY(const Archive archive, open_archive(path));
  BALLAST_CHECK(made->load(archive, path));
  return std::unique_ptr<Trainable>(std::move(made));
}

}  // namespace ballast
