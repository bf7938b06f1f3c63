#include "ballast/training/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ballast/base/json_object.h"
#include "ballast/base/near_miss.h"
#include "ballast/io/guard.h"
#include "ballast/ops/update_routines.h"
#include "ballast/tensor/cast.h"

namespace ballast {

// One row per optimizer. `uses` says which settings it has.
struct OptimizerRow {
  using Settings = Optimizer::Settings;
  std::string_view name;
  std::vector<std::string_view> slots;  // of each parameter
  bool slots_need_momentum;             // none without
  Settings defaults;
  std::vector<std::string_view> uses;
  bool positive_lr;
  std::string_view routine;  // that computes the updates
  Status (*update)(Context& context, const Settings& settings, uint64_t t, std::span<float> p, const Tensor& gradient,
                   std::span<const std::span<float>> slots);
};

namespace {

using Settings = OptimizerRow::Settings;
using Slots = std::span<const std::span<float>>;

Status update_sgd(Context& context, const Settings& s, uint64_t, std::span<float> p, const Tensor& gradient,
                  Slots slots) {
  const std::span<float> velocity = slots.empty() ? std::span<float>() : slots[0];
  return context.registry().run(context,
                                ops::SgdArgs{p, gradient, velocity, s.lr, s.momentum, s.weight_decay, s.nesterov});
}

template <bool kDecoupled>
Status update_adam(Context& context, const Settings& s, uint64_t t, std::span<float> p, const Tensor& gradient,
                   Slots slots) {
  const auto power = static_cast<double>(t);
  return context.registry().run(context, ops::AdamArgs{.p = p,
                                                       .gradient = gradient,
                                                       .m = slots[0],
                                                       .v = slots[1],
                                                       .lr = s.lr,
                                                       .beta1 = s.beta1,
                                                       .beta2 = s.beta2,
                                                       .eps = s.eps,
                                                       .weight_decay = s.weight_decay,
                                                       .correction1 = 1 - std::pow(s.beta1, power),
                                                       .correction2 = 1 - std::pow(s.beta2, power),
                                                       .decoupled = kDecoupled});
}

Status update_rmsprop(Context& context, const Settings& s, uint64_t, std::span<float> p, const Tensor& gradient,
                      Slots slots) {
  const std::span<float> buffer = s.momentum != 0 ? slots[1] : std::span<float>();
  return context.registry().run(
      context, ops::RmsPropArgs{p, gradient, slots[0], buffer, s.lr, s.alpha, s.eps, s.weight_decay, s.momentum});
}

const std::array<OptimizerRow, 5>& rows() {
  static const std::array<OptimizerRow, 5> kRows = {{
      {"SGD",
       {"velocity"},
       true,
       {.lr = 0.01},
       {"lr", "momentum", "weight_decay"},
       true,
       ops::SgdArgs::kRoutine,
       update_sgd},
      {"Momentum",
       {"velocity"},
       false,
       {.lr = 0.01, .momentum = 0.9},
       {"lr", "momentum", "weight_decay", "nesterov"},
       false,
       ops::SgdArgs::kRoutine,
       update_sgd},
      {"Adam",
       {"m", "v"},
       false,
       {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
       {"lr", "beta1", "beta2", "eps", "weight_decay"},
       false,
       ops::AdamArgs::kRoutine,
       update_adam<false>},
      {"AdamW",
       {"m", "v"},
       false,
       {.lr = 1e-3, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
       {"lr", "beta1", "beta2", "eps", "weight_decay"},
       false,
       ops::AdamArgs::kRoutine,
       update_adam<true>},
      {"RMSProp",
       {"square_mean", "buffer"},
       false,
       {.lr = 1e-3, .eps = 1e-8, .alpha = 0.99},
       {"lr", "alpha", "eps", "weight_decay", "momentum"},
       true,
       ops::RmsPropArgs::kRoutine,
       update_rmsprop},
  }};
  return kRows;
}

Result<const OptimizerRow*> find_row(const std::string& name) {
  for (const OptimizerRow& row : rows()) {
    if (row.name == name) return &row;
  }
  const auto names = optimizer_names();
  const std::string_view near = nearest(name, names);
  const std::string hint =
      near.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no optimizer \"{}\"; {}", name, hint));
}

Result<Settings> settings_of(const OptimizerRow& row, const OptimizerConfig& config) {
  Settings s = row.defaults;
  std::vector<std::string> problems;
  const auto take = [&](std::string_view name, const auto& given, auto& value) {
    if (!given) return;
    value = *given;
    if (std::ranges::find(row.uses, name) == row.uses.end()) {
      problems.push_back(fmt::format("{} has no \"{}\"; it has: {}", row.name, name, fmt::join(row.uses, ", ")));
    }
  };
  take("lr", config.lr, s.lr);
  take("momentum", config.momentum, s.momentum);
  take("weight_decay", config.weight_decay, s.weight_decay);
  take("beta1", config.beta1, s.beta1);
  take("beta2", config.beta2, s.beta2);
  take("eps", config.eps, s.eps);
  take("alpha", config.alpha, s.alpha);
  take("nesterov", config.nesterov, s.nesterov);
  const auto need = [&](bool holds, std::string_view text) {
    if (!holds) problems.push_back(fmt::format("{}: {}", row.name, text));
  };
  need(row.positive_lr ? s.lr > 0 : s.lr >= 0, "the learning rate must be above 0");
  need(row.defaults.eps == 0 || s.eps > 0, "eps must be above 0");
  need(s.momentum >= 0 && s.momentum < 1, "momentum must be at least 0 and below 1");
  need(s.beta1 >= 0 && s.beta1 < 1 && s.beta2 >= 0 && s.beta2 < 1, "betas must be at least 0 and below 1");
  need(s.alpha >= 0 && s.alpha <= 1, "alpha must be from 0 to 1");
  need(s.weight_decay >= 0, "the weight decay must not be negative");
  if (problems.empty()) return s;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace

std::vector<std::string_view> optimizer_names() {
  std::vector<std::string_view> names;
  for (const OptimizerRow& row : rows()) names.push_back(row.name);
  return names;
}

Optimizer::Optimizer(const OptimizerRow& row, const Settings& settings, TrainedParams& memory,
                     std::vector<Param> params)
    : row_(row), settings_(settings), memory_(memory), params_(std::move(params)), state_("optimizer") {}
Optimizer::~Optimizer() = default;

std::string_view Optimizer::type() const { return row_.name; }

Result<std::unique_ptr<Optimizer>> Optimizer::make(const OptimizerConfig& config, TrainedParams& memory,
                                                   std::vector<Param> params) {
  return guarded([&]() -> Result<std::unique_ptr<Optimizer>> {
    BALLAST_TRY(const OptimizerRow* row, find_row(config.type));
    BALLAST_TRY(const Settings settings, settings_of(*row, config));
    std::unique_ptr<Optimizer> optimizer(new Optimizer(*row, settings, memory, std::move(params)));
    BALLAST_CHECK(optimizer->allocate());
    return optimizer;
  });
}

Status Optimizer::allocate() {
  const auto add = [&](const Param& param, std::string_view slot) {
    TensorInfo info;
    info.name = fmt::format("optimizer.{}.{}", param.name(), slot);
    info.shape = param.shape();
    return state_.add(std::move(info));
  };
  for (const Param& param : params_) {
    slots_.push_back(state_.params().size());
    for (const std::string_view slot : row_.slots) {
      if (row_.slots_need_momentum && settings_.momentum == 0) continue;
      BALLAST_TRY([[maybe_unused]] const size_t index, add(param, slot));
    }
    masters_.push_back(state_.params().size());
    if (param.dtype() == DType::kF32) continue;
    BALLAST_TRY([[maybe_unused]] const size_t index, add(param, "master"));
  }
  return {};
}

// The f32 values behind a parameter of another type; taken anew where someone else has changed the parameter.
Status Optimizer::refresh_master(size_t index) {
  const Param& param = params_[index];
  const MutableByteSpan master = state_.bytes(masters_[index]);
  const MutableByteSpan bytes = memory_.bytes(param.index());
  ByteVector narrowed(bytes.size());
  BALLAST_TRY([[maybe_unused]] const CastReport there, cast_elements(DType::kF32, master, param.dtype(), narrowed));
  if (std::ranges::equal(narrowed, bytes)) return {};
  BALLAST_TRY([[maybe_unused]] const CastReport back, cast_elements(param.dtype(), bytes, DType::kF32, master));
  return {};
}

Status Optimizer::update(Context& context, size_t index, const Tensor& gradient) {
  const Param& param = params_[index];
  if (gradient.dtype() != DType::kF32) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: the gradient of \"{}\" is {}, where f32 is needed",
                                                           type(), param.name(), dtype_name(gradient.dtype())));
  }
  const bool is_f32 = param.dtype() == DType::kF32;
  if (!is_f32) BALLAST_CHECK(refresh_master(index));
  const std::span<float> p = is_f32 ? memory_.values<float>(param.index()) : state_.values<float>(masters_[index]);
  std::array<std::span<float>, 2> slots{};
  const size_t count = masters_[index] - slots_[index];
  for (size_t i = 0; i < count; ++i) slots[i] = slot(index, i);
  BALLAST_CHECK(row_.update(context, settings_, steps_, p, gradient, std::span(slots).first(count)));
  if (is_f32) return {};
  BALLAST_TRY([[maybe_unused]] const CastReport report,
              cast_elements(DType::kF32, state_.bytes(masters_[index]), param.dtype(), memory_.bytes(param.index())));
  return {};
}

Status Optimizer::step(Context& context, const ParamGradients& gradients) {
  return guarded([&]() -> Status {
    if (!context.registry().has_routine(row_.routine)) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("backend {} has no routine for {}", context.backend().name, type()));
    }
    ++steps_;
    for (size_t i = 0; i < params_.size(); ++i) {
      if (const Tensor* gradient = gradients.find(params_[i])) BALLAST_CHECK(update(context, i, *gradient));
    }
    return {};
  });
}

std::vector<StateTensor> Optimizer::state_tensors() {
  std::vector<StateTensor> tensors;
  for (size_t i = 0; i < state_.params().size(); ++i) tensors.push_back({state_.params()[i], state_.bytes(i)});
  return tensors;
}

std::string Optimizer::scalars_json() const {
  return fmt::format("{{\"type\": \"{}\", \"t\": {}, \"lr\": {}}}", row_.name, steps_, python_real(settings_.lr));
}

Status Optimizer::load_scalars(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the optimizer's state"));
    BALLAST_TRY(const auto type, object.find_text("type"));
    BALLAST_TRY(const auto steps, object.find_count("t"));
    BALLAST_TRY(const auto lr, object.find_real("lr"));
    if (!type || *type != row_.name || !steps || !lr) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the state is that of {}, and this run uses {}",
                                    type ? "the optimizer " + *type : std::string("no optimizer"), row_.name));
    }
    steps_ = *steps;
    settings_.lr = *lr;
    return {};
  });
}

// ---------------------------------------------------------------- gradients as a whole

Result<double> grad_norm(Context& context, std::span<const Param> params, const ParamGradients& gradients) {
  return guarded([&]() -> Result<double> {
    double sum = 0;
    for (const Param& param : params) {
      const Tensor* gradient = gradients.find(param);
      if (gradient == nullptr) continue;
      double squares = 0;
      BALLAST_CHECK(context.registry().run(context, ops::SquareSumArgs{*gradient, squares}));
      sum += squares;
    }
    return std::sqrt(sum);
  });
}

Status scale_gradients(Context& context, std::span<const Param> params, ParamGradients& gradients, double factor) {
  return guarded([&]() -> Status {
    for (const Param& param : params) {
      Tensor* gradient = gradients.find(param);
      if (gradient != nullptr) BALLAST_CHECK(context.registry().run(context, ops::ScaleArgs{factor, *gradient}));
    }
    return {};
  });
}

Result<double> clip_grad_norm(Context& context, std::span<const Param> params, ParamGradients& gradients,
                              double max_norm) {
  return guarded([&]() -> Result<double> {
    if (!(max_norm > 0)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the largest norm is {} and must be above 0", max_norm));
    }
    BALLAST_TRY(const double norm, grad_norm(context, params, gradients));
    if (norm > max_norm) BALLAST_CHECK(scale_gradients(context, params, gradients, max_norm / norm));
    return norm;
  });
}

}  // namespace ballast
