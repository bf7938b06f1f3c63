// Layers one after the other: a model that trains and that netcl's files hold.
//
//   BALLAST_TRY(auto model, nn::build_sequential(layers_json));
//   BALLAST_TRY(const Tensor y, model->forward(context, x));
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/backends/execution.h"
#include "ballast/nn/layer_table.h"
#include "ballast/nn/state_dict.h"
#include "ballast/ops/param_gradients.h"
#include "ballast/params/trained_params.h"

namespace ballast::nn {

struct SequentialOptions {
  uint64_t seed = 0;          // of the first values
  DType dtype = DType::kF32;  // of all tensors
  // Of single ones, by name: what a file has. Null: none is special.
  std::function<DType(std::string_view name, DType otherwise)> dtype_of = nullptr;
};

// Owns the memory of its tensors: parameters, which train, and buffers, such as running statistics. Both are called
// "{i}.{key}", where i counts all layers. One thread at a time.
class Sequential {
 public:
  static Result<std::unique_ptr<Sequential>> make(std::vector<LayerPtr> layers, const SequentialOptions& options = {});
  Sequential(const Sequential&) = delete;
  Sequential& operator=(const Sequential&) = delete;

  std::span<const LayerPtr> layers() const { return layers_; }
  // The layers as a JSON list of {"type", "args"}, as netcl writes it.
  std::string config_json() const { return layer_list_json(layers_); }
  // What files say of the model beside its layers: a JSON object (nn/about.h), or nothing.
  const std::string& about() const { return about_; }
  void set_about(std::string json) { about_ = std::move(json); }

  // In training, batch norm takes its statistics from x and remembers them, and dropout drops what the context's random
  // stream says. Images are [n, c, h, w].
  void train(bool on = true) { training_ = on; }
  void eval() { training_ = false; }
  bool is_training() const { return training_; }
  Result<Tensor> forward(Context& context, const Tensor& x);

  // In netcl's order: layer by layer, weight, bias.
  std::span<const Param> parameters() const { return parameters_; }
  // All tensors, buffers included, in the order of a file.
  std::span<const Param> tensors() const { return tensors_; }
  // From now on gradients of all parameters are made.
  void track(ParamGradients& gradients) const;
  TrainedParams& memory() { return *memory_; }
  ParamStore& store() { return *store_; }

  // Views of this model's memory.
  StateDict state_dict() const;
  // The parameters, to write to.
  std::vector<StateTensor> parameter_tensors();
  // See load_tensors.
  Result<StateReport> load_state_dict(const StateDict& state, const StateOptions& options = {});

  // Every tensor in another type: parameters and buffers are new ones afterwards, and whoever had them (an optimizer,
  // gradients) has to be made anew.
  Status to(DType dtype);
  // Where run() computes.
  void to(std::shared_ptr<Execution> execution) { execution_ = std::move(execution); }
  const std::shared_ptr<Execution>& execution() const { return execution_; }
  // On the device; the default one where none was given.
  Result<Tensor> run(const Tensor& x);

 private:
  explicit Sequential(std::vector<LayerPtr> layers) : layers_(std::move(layers)) {}
  Status allocate(const SequentialOptions& options);
  Status bind_layers();

  std::vector<LayerPtr> layers_;
  std::string about_;
  std::shared_ptr<TrainedParams> memory_;
  std::unique_ptr<ParamStore> store_;
  std::vector<Param> tensors_, parameters_;
  bool training_ = false;
  std::shared_ptr<Execution> execution_;
};

// From a list of {"type", "args"}, as JSON. kInvalidArgument names the layer and what is wrong.
Result<std::unique_ptr<Sequential>> build_sequential(std::string_view config, const SequentialOptions& options = {},
                                                     const LayerTable& table = LayerTable());

struct MlpOptions {
  std::string activation = "ReLU";  // between the maps, without arguments
  double dropout = 0;               // behind each activation
  bool bias = true;
  bool flatten = false;  // images first become rows
};
// Linear maps from sizes[0] over the others to the last. kInvalidArgument for fewer than two.
Result<std::unique_ptr<Sequential>> build_mlp(std::span<const uint64_t> sizes, const MlpOptions& mlp = {},
                                              const SequentialOptions& options = {});

// What Sequential and layers that have layers inside share.
Result<Value> run_layers(Pass& pass, std::span<const LayerPtr> layers, Value x);
// Images back to the order in which they were given.
Result<Tensor> as_given(Context& context, const Value& x);
// Hands out `params`, which are those of all layers in their order.
Status bind_all(std::span<const LayerPtr> layers, std::vector<Param> params);

}  // namespace ballast::nn
