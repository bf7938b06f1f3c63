// load_model: a file becomes a model that runs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/archive/model_source.h"
#include "ballast/base/param_id.h"
#include "ballast/models/model_input.h"
#include "ballast/models/model_kind.h"
#include "ballast/tensor/numerics.h"

namespace ballast {

struct Backend;  // ops/backend.h
class CausalLm;  // models/model.h, as the next three
class ImageClassifier;
class LayeredModel;
class TextEmbedder;
class Context;          // ops/context.h
class Registry;         // ops/registry.h
struct ResidencyStats;  // params/param_store.h

struct LoadOptions {
  std::string backend{};                                         // empty: the default; "cpu" where `extend` is set
  const Backend* own_backend = nullptr;                          // instead; must outlive the model
  unsigned threads = 0;                                          // 0: as many as the machine has
  Numerics numerics = Numerics::kFast;                           // of products with quantised or bf16 weights
  std::optional<uint64_t> param_budget{};                        // bytes; wins over the config
  std::optional<double> param_budget_fraction{};                 // of all parameters; the same
  std::vector<std::pair<std::string, std::string>> overrides{};  // functional and policy; win over the config
  std::optional<std::string> config_text{};                      // for files that carry no model config
  std::span<const ModelKind> more_kinds{};                       // beside the built-in ones
  std::function<Status(Registry&)> extend{};                     // adds implementations, before overrides name them
  std::optional<ModelNamespaceId> model_namespace{};             // absent: a fresh one
};

struct LoadReport {
  std::vector<std::string> unused;  // tensors of the file that the model did not ask for
  uint64_t param_bytes = 0;
  size_t params = 0;
  std::vector<DType> block_types;  // quantised types of the parameters and bf16, each once
  size_t narrowed = 0;             // tensors stored as f64, which are computed with as f32
};

// A model of any kind, its parameters, its registry, and what it needs to run. Any thread may call it: forward() takes
// its turn, and so does what TextModel, Embedder and ImageModel compute with it. Different models run at the same time.
class LoadedModel {
 public:
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  std::string_view kind() const;
  const LoadReport& report() const;
  // Reading the output (HostValues) waits for the model's queue: hold running() meanwhile where other threads compute,
  // unless it lies in the host's memory. It may be dropped at any time.
  Result<ModelOutput> forward(const ModelInput& input);

  // Null where the model cannot do that; capabilities() says what it can.
  const CausalLm* as_causal_lm() const;
  const ImageClassifier* as_image_classifier() const;
  const TextEmbedder* as_text_embedder() const;
  const LayeredModel* as_layered() const;
  std::vector<std::string_view> capabilities() const;
  bool takes_values() const;
  // What its outputs stand for, where the model's files say it; empty otherwise.
  std::span<const std::string> class_names() const;
  // Whether its outputs are known to be classes or tokens: what else a model of layers computes may be a regression.
  bool chooses() const;
  // "a bert model does not support text generation; it supports text embedding": for a model that has no such
  // capability.
  Error cannot(std::string_view wanted) const;

  // For callers that drive a capability themselves: one call at a time, and with running() held where other threads may
  // call too. Whatever computes, here and in TextModel, Embedder and ImageModel, holds it, and so does whatever uses
  // the model's queue or its workspace; what only tells something of the model does not need it.
  std::mutex& running();
  Context& context();
  Workspace& workspace();
  Registry& registry();
  const Backend& backend() const;
  ResidencyStats residency() const;
  // What ends a text, where the files of the model say it.
  std::span<const TokenId> stop_tokens() const;
  // The config's JSON as the file has it.
  const std::string& config_text() const;

 private:
  friend Result<std::unique_ptr<LoadedModel>> load_model(const ModelSource&, const LoadOptions&);
  struct State;
  explicit LoadedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Opens what open_archive opens, as long as it carries a model config ({"kind", "config", "runtime"}, a flat GPT
// config, or GPTRSCHK version 1), or stands beside a config.json of Hugging Face's. Costs the header; parameters are
// read when they are touched. Tensors may outlive it.
Result<std::unique_ptr<LoadedModel>> load_model(const ModelSource& source, const LoadOptions& options = {});
Result<std::unique_ptr<LoadedModel>> load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace ballast
