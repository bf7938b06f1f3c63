// A moving average of a model's parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/training/optimizer.h"

namespace ballast {

struct ModelEmaConfig {
  double decay = 0.999;
  bool warmup = true;  // the first averages follow faster: at most (1 + n) / (10 + n) after n updates
};

class ModelEma {
 public:
  // Begins with the parameters as they are. `memory` must outlive this.
  static Result<std::unique_ptr<ModelEma>> make(const ModelEmaConfig& config, TrainedParams& memory,
                                                std::vector<Param> params);

  // shadow = d * shadow + (1 - d) * parameter
  Status update();
  uint64_t updates() const { return updates_; }
  std::span<const float> shadow(size_t param) { return shadow_.values<float>(param); }
  // The average and the parameters change places: once to evaluate with the average, once more to go on.
  Status swap();

  // {"decay", "warmup", "step_count", "shadow": [...]}, as netcl has it.
  std::string state_dict() const;
  Status load_state_dict(std::string_view json);
  // For checkpoints: "ema.{parameter}", and the numbers beside them.
  std::vector<StateTensor> state_tensors();
  std::string scalars_json() const;
  Status load_scalars(std::string_view json);

 private:
  ModelEma(const ModelEmaConfig& config, TrainedParams& memory, std::vector<Param> params)
      : config_(config), memory_(memory), params_(std::move(params)), shadow_("average") {}
  Result<std::span<const float>> values_of(size_t param);

  ModelEmaConfig config_;
  TrainedParams& memory_;
  std::vector<Param> params_;
  mutable TrainedParams shadow_;  // f32, one for each parameter; const where only looked at
  // Of one parameter at a time, as f32. Has room for the largest, so that swap() needs no memory: the way back to the
  // parameters must not fail.
  std::vector<float> values_;
  uint64_t updates_ = 0;
};

}  // namespace ballast
