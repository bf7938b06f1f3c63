#include "ballast/runtime/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "ballast/archive/model_folder.h"
#include "ballast/backends/execution.h"
#include "ballast/base/near_miss.h"
#include "ballast/io/guard.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/model_config.h"
#include "ballast/models/model.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/params/budget.h"
#include "ballast/params/narrow_params.h"
#include "ballast/params/param_store.h"
#include "ballast/text/text_ends.h"

namespace ballast {

struct LoadedModel::State {
  std::string config_text;
  LoadReport report;
  std::vector<TokenId> stop_tokens;
  std::unique_ptr<ParamStore> store;
  std::shared_ptr<Execution> execution;
  std::unique_ptr<Model> model;
  std::mutex running;
};

namespace {

constexpr std::string_view kOurSchema = "gptrs";

Result<const ModelKind*> choose_kind(const std::string& name, std::span<const ModelKind> more) {
  std::vector<std::string_view> names;
  for (const auto& kinds : {all_model_kinds(), more}) {
    for (const ModelKind& kind : kinds) {
      if (kind.name == name) return &kind;
      names.push_back(kind.name);
    }
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("there is no model kind \"{}\"; there are: {}", name, fmt::join(names, ", ")));
}

Result<ModelConfig> find_config(const Description& file, const ModelFolder& folder, const std::string& path,
                                const LoadOptions& options) {
  if (options.config_text) {
    return ModelConfig{std::string(is_huggingface_config(*options.config_text) ? kHuggingFaceSchema : kOurSchema),
                       *options.config_text};
  }
  if (auto config = runnable_config(file)) return *std::move(config);
  if (folder.config) return *folder.config;
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("{}: the file holds weights but no model config that says how to compute with them", path),
      Remedy::kDescribeModel);
}

struct FoundModel {
  ModelDescription description{};
  std::string config_text{};
};

// The layers of a netcl file, or of one of ours that holds the same, are its config.
Result<std::optional<FoundModel>> find_layers(const Description& file, const std::string& path) {
  auto listing = nn::read_layer_listing(file);
  if (!listing) return std::move(listing).error().with_context(path);
  if (!*listing) return std::optional<FoundModel>();
  FoundModel found{.config_text = (*listing)->layers};
  found.description.kind = "sequential";
  found.description.config = {.words = KindConfig::Words::kLayers, .layers = **std::move(listing)};
  return std::optional(std::move(found));
}

Result<FoundModel> find_model(const Description& file, const ModelFolder& folder, const std::string& path,
                              const LoadOptions& options) {
  if (!options.config_text) {
    BALLAST_TRY(auto layers, find_layers(file, path));
    if (layers) return *std::move(layers);
  }
  BALLAST_TRY(ModelConfig config, find_config(file, folder, path, options));
  BALLAST_TRY(ModelDescription description, describe_model(config, folder.sentence, path));
  return FoundModel{std::move(description), std::move(config.text)};
}

Result<ModelFolder> find_model_folder(const ModelSource& source, const Description& file) {
  if (!takes_config_from_folder(file)) return ModelFolder();
  return source.folder();
}

// Flags and options ask for what they say; what a config asks for is raised to what the model needs at least, because
// its author had another machine and another runtime in mind.
Result<ResidencyOptions> residency_options(const LoadOptions& options, const WeightStreaming& streaming,
                                           const ParamSource& source) {
  ResidencyOptions residency;
  const uint64_t total = total_bytes(source);
  if (options.param_budget || options.param_budget_fraction) {
    BALLAST_TRY(residency.budget,
                effective_budget({options.param_budget, options.param_budget_fraction, std::nullopt}, total));
  } else {
    BALLAST_TRY(residency.budget, effective_budget({streaming.device_budget_bytes, streaming.device_weights_fraction,
                                                    streaming.cache_budget_cap_bytes},
                                                   total));
    if (residency.budget) residency.budget = std::max(*residency.budget, smallest_budget(source));
  }
  if (streaming.small_param_persist_threshold) residency.keep_below = *streaming.small_param_persist_threshold;
  if (const uint64_t layers = streaming.prefetch_layers.value_or(0)) {
    residency.keep = [layers](std::string_view name) { return is_in_first_layers(name, layers); };
  }
  return residency;
}

using Overrides = std::vector<std::pair<std::string, std::string>>;

bool is_same_functional(std::string_view a, std::string_view b) {
  const FunctionalInfo* known = find_functional(a);
  return a == b || (known != nullptr && known == find_functional(b));
}

bool names(const Overrides& overrides, const std::string& key) {
  return std::ranges::any_of(overrides, [&](const auto& entry) { return is_same_functional(entry.first, key); });
}

Status set_override(Registry& registry, const std::string& key, const std::string& text) {
  auto policy = parse_policy(text);
  if (!policy) return std::move(policy).error().with_context(fmt::format("override of {}", key));
  return registry.set_policy(key, *policy);
}

// An option replaces what the file says about the same functional: even what could not be done here.
Status extend_registry(Registry& registry, const ModelDescription& model, const LoadOptions& options,
                       const std::string& path) {
  if (options.extend) BALLAST_CHECK(options.extend(registry));
  for (const auto& [key, text] : model.functional_overrides) {
    if (names(options.overrides, key)) continue;
    auto set = set_override(registry, key, text);
    if (!set) return std::move(set).error().with_context(path);
  }
  for (const auto& [key, text] : options.overrides) {
    const bool only_undoes = text.empty() && names(model.functional_overrides, key) && find_functional(key) == nullptr;
    if (!only_undoes) BALLAST_CHECK(set_override(registry, key, text));
  }
  return {};
}

// What is wrong with a parameter names its file already, what is wrong with a config does not.
Error named(Error error, const std::string& path) {
  return error.message.starts_with(path) ? std::move(error) : std::move(error).with_context(path);
}

// What the file holds and the model did not ask for.
std::vector<std::string> unused_tensors(const ParamSource& source, const ParamLoader& params) {
  std::vector<std::string> taken = params.taken();
  taken.insert(taken.end(), params.passed_over().begin(), params.passed_over().end());
  std::ranges::sort(taken);
  std::vector<std::string> unused;
  for (const TensorInfo& tensor : source.params()) {
    if (!std::ranges::binary_search(taken, tensor.name)) unused.push_back(tensor.name);
  }
  return unused;
}

std::shared_ptr<const ParamSource> params_of(std::shared_ptr<const Archive> archive) {
  return narrow_f64_params(make_param_source(std::move(archive)));
}

Result<std::unique_ptr<ParamStore>> open_store(const ModelSource& source, std::shared_ptr<const Archive> archive,
                                               const LoadOptions& options, const WeightStreaming& streaming) {
  auto params = params_of(std::move(archive));
  BALLAST_TRY(const ResidencyOptions residency, residency_options(options, streaming, *params));
  if (residency.budget) {
    // Pages of a mapping would count as memory beside the budget.
    BALLAST_TRY(auto read, source.archive(FileAccess::kPositional));
    params = params_of(std::move(read));
  }
  return ParamStore::open(std::move(params), residency, options.model_namespace);
}

std::vector<DType> block_types_of(const ParamSource& source) {
  std::vector<DType> types;
  for (const TensorInfo& info : source.params()) {
    const bool has_numerics = is_block(info.dtype) || info.dtype == DType::kBF16;
    if (has_numerics && std::ranges::find(types, info.dtype) == types.end()) types.push_back(info.dtype);
  }
  return types;
}

// Implementations that a program adds are mostly written for the host's memory, so nothing else is chosen for them.
Result<std::shared_ptr<Execution>> open_execution(const LoadOptions& options) {
  if (options.own_backend != nullptr) return Execution::open(*options.own_backend, options.threads);
  const bool is_for_host = options.extend && options.backend.empty();
  return Execution::open(is_for_host ? "cpu" : std::string_view(options.backend), options.threads);
}

}  // namespace

LoadedModel::LoadedModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedModel::~LoadedModel() = default;

std::string_view LoadedModel::kind() const { return state_->model->kind(); }
const LoadReport& LoadedModel::report() const { return state_->report; }
const CausalLm* LoadedModel::as_causal_lm() const { return state_->model->as_causal_lm(); }
const ImageClassifier* LoadedModel::as_image_classifier() const { return state_->model->as_image_classifier(); }
const TextEmbedder* LoadedModel::as_text_embedder() const { return state_->model->as_text_embedder(); }
const LayeredModel* LoadedModel::as_layered() const { return state_->model->as_layered(); }
bool LoadedModel::takes_values() const { return state_->model->takes_values(); }
Context& LoadedModel::context() { return state_->execution->context(); }
std::mutex& LoadedModel::running() { return state_->running; }
Workspace& LoadedModel::workspace() { return state_->execution->workspace(); }
Registry& LoadedModel::registry() { return state_->execution->registry(); }
const Backend& LoadedModel::backend() const { return state_->execution->backend(); }
ResidencyStats LoadedModel::residency() const { return state_->store->stats(); }
std::span<const TokenId> LoadedModel::stop_tokens() const { return state_->stop_tokens; }
const std::string& LoadedModel::config_text() const { return state_->config_text; }

std::vector<std::string_view> LoadedModel::capabilities() const {
  std::vector<std::string_view> names;
  if (as_causal_lm() != nullptr) names.push_back("text generation");
  if (as_image_classifier() != nullptr) names.push_back("image classification");
  if (as_text_embedder() != nullptr) names.push_back("text embedding");
  if (takes_values()) names.push_back("tensors of any shape");
  return names;
}

std::span<const std::string> LoadedModel::class_names() const {
  const ImageClassifier* classifier = as_image_classifier();
  return classifier != nullptr ? classifier->labels() : state_->model->class_names();
}

bool LoadedModel::chooses() const { return !class_names().empty() || !takes_values(); }

Error LoadedModel::cannot(std::string_view wanted) const {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("a {} model does not support {}; it supports {}", kind(),
                                                             wanted, fmt::join(capabilities(), ", ")));
}

Result<Tensor> LoadedModel::forward(const ModelInput& input) {
  const std::lock_guard lock(state_->running);
  return guarded([&] { return state_->model->forward(state_->execution->context(), input); });
}

Result<std::unique_ptr<LoadedModel>> load_model(const std::string& path, const LoadOptions& options) {
  return guarded([&] { return load_model(ModelSource(path), options); });
}

Result<std::unique_ptr<LoadedModel>> load_model(const ModelSource& source, const LoadOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<LoadedModel>> {
    const std::string& path = source.name();
    auto state = std::make_unique<LoadedModel::State>();
    BALLAST_TRY(state->execution, open_execution(options));
    const bool wants_budget = options.param_budget || options.param_budget_fraction;
    BALLAST_TRY(auto archive, source.archive(wants_budget ? FileAccess::kPositional : FileAccess::kMapped));
    const Description& file = archive->description();
    BALLAST_TRY(const ModelFolder folder, find_model_folder(source, file));
    BALLAST_TRY(FoundModel found, find_model(file, folder, path, options));
    const ModelDescription& model = found.description;
    BALLAST_TRY(state->stop_tokens, find_stop_tokens(folder, file));
    state->config_text = std::move(found.config_text);
    BALLAST_TRY(const ModelKind* kind, choose_kind(model.kind, options.more_kinds));
    BALLAST_CHECK(extend_registry(state->execution->registry(), model, options, path));
    const auto is_wide = [](const TensorInfo& info) { return info.dtype == DType::kF64; };
    const auto narrowed = static_cast<size_t>(std::ranges::count_if(file.tensors, is_wide));
    BALLAST_TRY(state->store, open_store(source, archive, options, model.streaming));
    ParamLoader params(*state->store);
    auto built = kind->build(model.config, params);
    if (!built) {
      Error failure = std::move(built).error();
      // The file is there; what it lacks is a parameter that its own config asks for.
      if (failure.code == ErrorCode::kNotFound) failure.code = ErrorCode::kInvalidArgument;
      return named(std::move(failure), path);
    }
    state->model = std::move(*built);
    const ParamSource& stored = state->store->source();
    state->report = {unused_tensors(stored, params), total_bytes(stored), params.taken().size(), block_types_of(stored),
                     narrowed};
    state->execution->context().numerics = options.numerics;
    return std::unique_ptr<LoadedModel>(new LoadedModel(std::move(state)));
  });
}

}  // namespace ballast
