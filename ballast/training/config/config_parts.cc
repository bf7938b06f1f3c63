#include "ballast/training/config/config_parts.h"

#include <array>
#include <utility>

namespace ballast {

namespace {

using Names = std::pair<std::string_view, std::string_view>;  // in a configuration, in the table of optimizers

std::string type_of(std::span<const Names> names, const std::string& configured) {
  for (const auto& [name, type] : names) {
    if (name == configured) return std::string(type);
  }
  return configured;  // which the table refuses, and says what there is
}

constexpr std::array<Names, 5> kOptimizers = {
    {{"sgd", "SGD"}, {"momentum", "Momentum"}, {"adam", "Adam"}, {"adamw", "AdamW"}, {"rmsprop", "RMSProp"}}};
constexpr std::array<Names, 5> kSchedules = {{{"constant", "Constant"},
                                              {"linear_warmup", "LinearWarmup"},
                                              {"warmup_cosine", "WarmupCosine"},
                                              {"cosine_annealing", "CosineAnnealingLR"},
                                              {"reduce_on_plateau", "ReduceLROnPlateau"}}};

}  // namespace

OptimizerConfig optimizer_config(const OptimizerSpec& spec) {
  OptimizerConfig config;
  config.type = type_of(kOptimizers, spec.type);
  config.lr = spec.lr;
  config.weight_decay = spec.weight_decay;
  if (config.type == "SGD" || config.type == "Momentum" || config.type == "RMSProp") config.momentum = spec.momentum;
  if (config.type == "Momentum") config.nesterov = spec.nesterov;
  if (config.type == "RMSProp") config.alpha = spec.alpha;
  if (config.type == "Adam" || config.type == "AdamW" || config.type == "RMSProp") config.eps = spec.eps;
  if (config.type == "Adam" || config.type == "AdamW") {
    config.beta1 = spec.beta1;
    config.beta2 = spec.beta2;
  }
  return config;
}

ScheduleConfig schedule_config(const ScheduleSpec& spec, double lr, uint64_t calls) {
  ScheduleConfig config;
  config.type = type_of(kSchedules, spec.type);
  config.lr = spec.max_lr != 0 ? spec.max_lr : lr;
  const bool cosine = config.type == "WarmupCosine" || config.type == "CosineAnnealingLR";
  const bool plateau = config.type == "ReduceLROnPlateau";
  if (cosine || plateau) config.min_lr = spec.min_lr;
  if (cosine || config.type == "LinearWarmup") config.warmup = spec.warmup;
  if (config.type == "CosineAnnealingLR" || config.type == "LinearWarmup") config.warmup_start = spec.warmup_start;
  if (config.type == "WarmupCosine") config.total = spec.total != 0 ? spec.total : calls;
  if (config.type == "CosineAnnealingLR") config.period = spec.period;
  if (plateau) {
    config.factor = spec.factor;
    config.patience = spec.patience;
    config.threshold = spec.threshold;
    config.larger_is_better = spec.mode == "max";
  }
  return config;
}

}  // namespace ballast
