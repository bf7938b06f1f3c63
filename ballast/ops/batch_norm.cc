#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

bool supports_statistics(const Context& context, const BatchStatisticsArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gradients.batch_statistics; });
}

Result<Tensor> run_statistics(Context& context, const BatchStatisticsArgs& args) {
  const uint64_t channels = args.x.dims().back();
  BALLAST_TRY(Tensor y, context.workspace().make({2, channels}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    T* const mean = y.writable<T>();
    kernels<T>(context).gradients.batch_statistics(args.x.data<T>(), mean, mean + channels, args.x.dims().leading(),
                                                   channels, context.threads());
  });
  return y;
}

// y = (x - mean) * factor + shift, with one of each for a channel.
template <typename T>
struct Channels {
  Tensor memory;
  T* mean = nullptr;
  T* factor = nullptr;  // gamma / sqrt(variance + eps)
  T* shift = nullptr;
};

// Parameters are taken one after the other: under a budget there may not be room for all of them at once.
template <typename T>
Status copy_values(Context& context, const Param& param, T* to) {
  BALLAST_TRY(const auto values, ParamValues<T>::take(context, param));
  std::copy_n(values.data(), param.shape()[0], to);
  return {};
}

// `mean` and `factor` hold mean and variance when this is called.
template <typename T>
Status finish_channels(Context& context, const Param& gamma, const Param& beta, float eps, Channels<T>& channels) {
  BALLAST_CHECK(copy_values(context, beta, channels.shift));
  BALLAST_TRY(const auto scales, ParamValues<T>::take(context, gamma));
  for (uint64_t c = 0; c < gamma.shape()[0]; ++c) {
    channels.factor[c] = scales.data()[c] / std::sqrt(channels.factor[c] + static_cast<T>(eps));
  }
  return {};
}

template <typename T>
Result<Channels<T>> make_channels(Context& context, uint64_t count) {
  Channels<T> channels;
  BALLAST_TRY(channels.memory, context.workspace().make({3, count}, kDTypeOf<T>));
  channels.mean = channels.memory.template writable<T>();
  channels.factor = channels.mean + count;
  channels.shift = channels.factor + count;
  return channels;
}

template <typename T>
void normalise(Context& context, const Tensor& x, const Channels<T>& channels, Tensor& y) {
  const uint64_t count = x.dims().back();
  const T* from = x.data<T>();
  const T *mean = channels.mean, *factor = channels.factor, *shift = channels.shift;
  T* to = y.writable<T>();
  context.threads().for_ranges(x.dims().leading(), row_grain(count), [=](size_t begin, size_t end) {
    for (size_t at = begin * count; at < end * count; at += count) {
      for (size_t c = 0; c < count; ++c) to[at + c] = (from[at + c] - mean[c]) * factor[c] + shift[c];
    }
  });
}

Result<Tensor> run_training(Context& context, const BatchNormTrainingArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    const uint64_t count = args.x.dims().back();
    BALLAST_TRY(Channels<T> channels, make_channels<T>(context, count));
    std::copy_n(args.statistics.data<T>(), 2 * count, channels.mean);
    BALLAST_CHECK(finish_channels(context, args.gamma, args.beta, args.eps, channels));
    normalise(context, args.x, channels, y);
    return {};
  }));
  return y;
}

Result<Tensor> run_constant(Context& context, const BatchNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(Channels<T> channels, make_channels<T>(context, args.x.dims().back()));
    BALLAST_CHECK(copy_values(context, args.mean, channels.mean));
    BALLAST_CHECK(copy_values(context, args.variance, channels.factor));
    BALLAST_CHECK(finish_channels(context, args.gamma, args.beta, args.eps, channels));
    normalise(context, args.x, channels, y);
    return {};
  }));
  return y;
}

template <typename Args>
bool supports_norm(const Context& context, const Args& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.widen; });
}

struct BatchNormStep {
  Param gamma, beta;
  Param mean, variance;  // where statistics are constants
  Tensor statistics;     // where they are those of x
  bool to_gamma, to_beta;
  float eps;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const PlacePair places, place_pair(tape, gamma, to_gamma, beta, to_beta, dy.dtype()));
    Tensor dx;
    if (input.is_followed()) {
      BALLAST_TRY(dx, context.workspace().make(dy.dims(), dy.dtype()));
    }
    BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() { return run<T>(context, dy, places, dx); }));
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }

  template <typename T>
  Status run(Context& context, const Tensor& dy, const PlacePair& places, Tensor& dx) const {
    BALLAST_TRY(const auto* table,
                gradients_with<T>(context, &GradientKernels<T>::batch_norm, "gradients of batch norm"));
    BALLAST_TRY(const auto scales, ParamValues<T>::take(context, gamma));
    const bool is_constant = mean.valid();
    BALLAST_TRY(const auto means, ParamValues<T>::take(context, is_constant ? &mean : nullptr));
    BALLAST_TRY(const auto variances, ParamValues<T>::take(context, is_constant ? &variance : nullptr));
    BatchNormGradient<T> problem{};
    problem.x = x.data<T>();
    problem.dy = dy.data<T>();
    problem.gamma = scales.data();
    problem.mean = is_constant ? means.data() : statistics.data<T>();
    problem.variance = is_constant ? variances.data() : statistics.data<T>() + dy.dims().back();
    problem.dx = dx.empty() ? nullptr : dx.writable<T>();
    problem.dgamma = data_or_null<T>(places.first);
    problem.dbeta = data_or_null<T>(places.second);
    problem.rows = dy.dims().leading();
    problem.channels = dy.dims().back();
    problem.eps = static_cast<T>(eps);
    problem.constant_statistics = is_constant;
    problem.add = places.add;
    table->batch_norm(problem, context.threads());
    return {};
  }
};

Status check_rows(const Tensor& x) {
  BALLAST_CHECK(check_activation("x", x));
  if (x.dims().rank() >= 2 && x.count() != 0) return {};
  return refused(named("x", x), "it must have rows and channels, and none of them 0");
}

}  // namespace

Status BatchStatisticsArgs::check() const { return check_rows(x); }
std::string BatchStatisticsArgs::text() const { return typed(x); }

Status BatchNormTrainingArgs::check() const {
  BALLAST_CHECK(check_rows(x));
  BALLAST_CHECK(check_activation("statistics", statistics, 2));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  BALLAST_CHECK(check_vector("beta", beta, "x", x));
  if (statistics.dims() == Dims{2, x.dims().back()} && statistics.dtype() == x.dtype()) return {};
  return does_not_fit("statistics " + typed(statistics), "x " + typed(x), "they must be batch_statistics of x");
}
std::string BatchNormTrainingArgs::text() const { return fmt::format("{} gamma {}", typed(x), typed(gamma)); }

Status BatchNormArgs::check() const {
  BALLAST_CHECK(check_rows(x));
  BALLAST_CHECK(check_vector("mean", mean, "x", x));
  BALLAST_CHECK(check_vector("variance", variance, "x", x));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  return check_vector("beta", beta, "x", x);
}
std::string BatchNormArgs::text() const { return fmt::format("{} gamma {}", typed(x), typed(gamma)); }

void BatchNormTrainingArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, BatchNormStep{
                     gamma, beta, {}, {}, statistics, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

void BatchNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, BatchNormStep{
                     gamma, beta, mean, variance, {}, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

Result<Tensor> batch_statistics(Context& context, const Tensor& x) {
  return context.registry().call(context, BatchStatisticsArgs{x});
}
Result<Tensor> batch_norm_training(Context& context, const Tensor& x, const Tensor& statistics, const Param& gamma,
                                   const Param& beta, float eps) {
  return context.registry().call(context, BatchNormTrainingArgs{x, statistics, gamma, beta, eps});
}
Result<Tensor> batch_norm(Context& context, const Tensor& x, const Param& mean, const Param& variance,
                          const Param& gamma, const Param& beta, float eps) {
  return context.registry().call(context, BatchNormArgs{x, mean, variance, gamma, beta, eps});
}

void add_batch_norm(Registry& registry) {
  add_builtin(registry, supports_statistics, run_statistics);
  add_builtin(registry, supports_norm<BatchNormTrainingArgs>, run_training);
  add_builtin(registry, supports_norm<BatchNormArgs>, run_constant);
}

}  // namespace ballast::ops
