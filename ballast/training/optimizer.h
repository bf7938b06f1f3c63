// Optimizers: SGD, Momentum, Adam, AdamW, RMSProp, with netcl's formulas and defaults.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/nn/state_dict.h"
#include "ballast/ops/context.h"
#include "ballast/ops/param_gradients.h"
#include "ballast/params/trained_params.h"

namespace ballast {

// What is absent is the optimizer's default; what an optimizer does not have is an error.
struct OptimizerConfig {
  std::string type = "SGD";
  std::optional<double> lr{}, momentum{}, weight_decay{}, beta1{}, beta2{}, eps{}, alpha{};
  std::optional<bool> nesterov{};
};

struct OptimizerRow;  // of the table in optimizer.cc

// Changes parameters in place, by their gradients. Parameters that no gradient reached are left alone. One thread.
class Optimizer {
 public:
  // `memory` holds the parameters and must outlive this. Names of optimizers are netcl's; a near miss is named.
  static Result<std::unique_ptr<Optimizer>> make(const OptimizerConfig& config, TrainedParams& memory,
                                                 std::vector<Param> params);
  ~Optimizer();

  std::string_view type() const;
  double lr() const { return settings_.lr; }
  void set_lr(double lr) { settings_.lr = lr; }
  uint64_t steps() const { return steps_; }
  std::span<const Param> params() const { return params_; }

  Status step(Context& context, const ParamGradients& gradients);

  // ---------------------------------------------------------------- the state
  // As JSON that netcl's load_state_dict takes too: {"velocity": [...]} of SGD, {"t", "moments": [[m, v], ...]} of
  // AdamW; the others in the same manner. Learning rate and other settings are not in it, as in netcl.
  std::string state_dict() const;
  // kInvalidArgument where counts or shapes do not fit; nothing has changed then.
  Status load_state_dict(std::string_view json);

  // The same as tensors called "optimizer.{parameter}.m", with the numbers beside them: for checkpoints.
  std::vector<StateTensor> state_tensors();
  std::string scalars_json() const;  // {"type", "t", "lr"}
  Status load_scalars(std::string_view json);

 private:
  struct Settings {
    double lr = 0, momentum = 0, weight_decay = 0, beta1 = 0, beta2 = 0, eps = 0, alpha = 0;
    bool nesterov = false;
  };
  friend struct OptimizerRow;
  Optimizer(const OptimizerRow& row, const Settings& settings, TrainedParams& memory, std::vector<Param> params);
  Status allocate();
  Status update(Context& context, size_t index, const Tensor& gradient);
  Status refresh_master(size_t index);
  std::span<float> slot(size_t index, size_t slot) { return state_.values<float>(slots_[index] + slot); }

  const OptimizerRow& row_;
  Settings settings_;
  TrainedParams& memory_;
  std::vector<Param> params_;
  TrainedParams state_;
  std::vector<size_t> slots_;    // of each parameter: the first of its tensors in state_
  std::vector<size_t> masters_;  // of parameters that are not f32: their f32 values in state_
  uint64_t steps_ = 0;
};

// The names of optimizers, for errors and help.
std::vector<std::string_view> optimizer_names();

// ---------------------------------------------------------------- gradients as a whole
// The L2 norm of all gradients.
Result<double> grad_norm(Context& context, std::span<const Param> params, const ParamGradients& gradients);
// Scales them down to `max_norm` where they are above it. Returns the norm before.
Result<double> clip_grad_norm(Context& context, std::span<const Param> params, ParamGradients& gradients,
                              double max_norm);
Status scale_gradients(Context& context, std::span<const Param> params, ParamGradients& gradients, double factor);

}  // namespace ballast
