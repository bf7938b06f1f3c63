#include <algorithm>
#include <cmath>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/normalization.h"

namespace ballast::host {

namespace {

bool supports_statistics(const Context& context, const BatchStatisticsArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gradients.batch_statistics; });
}

Result<Tensor> run_statistics(Context& context, const BatchStatisticsArgs& args) {
  const uint64_t channels = args.x.dims().back();
  BALLAST_TRY(Tensor y, context.workspace().make({2, channels}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    T* const mean = host_data<T>(y);
    kernels<T>(context).gradients.batch_statistics(host_data<const T>(args.x), mean, mean + channels,
                                                   args.x.dims().leading(), channels, context.threads());
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
  channels.mean = host_data<T>(channels.memory);
  channels.factor = channels.mean + count;
  channels.shift = channels.factor + count;
  return channels;
}

template <typename T>
void normalise(Context& context, const Tensor& x, const Channels<T>& channels, Tensor& y) {
  const uint64_t count = x.dims().back();
  const T* from = host_data<const T>(x);
  const T *mean = channels.mean, *factor = channels.factor, *shift = channels.shift;
  T* to = host_data<T>(y);
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
    std::copy_n(host_data<const T>(args.statistics), 2 * count, channels.mean);
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

template <typename T>
Status batch_norm_back(Context& context, const BatchNormGradientArgs& args) {
  BALLAST_TRY(const auto* table,
              gradients_with<T>(context, &GradientKernels<T>::batch_norm, "gradients of batch norm"));
  BALLAST_TRY(const auto scales, ParamValues<T>::take(context, args.gamma));
  BALLAST_TRY(const auto means, ParamValues<T>::take(context, args.mean));
  BALLAST_TRY(const auto variances, ParamValues<T>::take(context, args.variance));
  const uint64_t channels = args.dy.dims().back();
  const bool is_constant = args.statistics == nullptr;
  BatchNormGradient<T> problem{};
  problem.x = host_data<const T>(args.x);
  problem.dy = host_data<const T>(args.dy);
  problem.gamma = scales.data();
  problem.mean = is_constant ? means.data() : host_data<const T>(*args.statistics);
  problem.variance = is_constant ? variances.data() : host_data<const T>(*args.statistics) + channels;
  problem.dx = data_or_null<T>(args.dx);
  problem.dgamma = data_or_null<T>(args.dgamma);
  problem.dbeta = data_or_null<T>(args.dbeta);
  problem.rows = args.dy.dims().leading();
  problem.channels = channels;
  problem.eps = static_cast<T>(args.eps);
  problem.constant_statistics = is_constant;
  problem.add = args.add;
  table->batch_norm(problem, context.threads());
  return {};
}

Status run_batch_norm_gradient(Context& context, const BatchNormGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() { return batch_norm_back<T>(context, args); });
}

}  // namespace

void add_batch_norm(Registry& registry) {
  registry.add_builtin(supports_statistics, run_statistics);
  registry.add_builtin(supports_norm<BatchNormTrainingArgs>, run_training);
  registry.add_builtin(supports_norm<BatchNormArgs>, run_constant);
  registry.add_routine(run_batch_norm_gradient);
}

}  // namespace ballast::host
