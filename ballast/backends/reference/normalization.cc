#include "ballast/ops/normalization.h"

#include <cmath>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

template <typename T>
void put(T* to, uint64_t at, T value, bool add) {
  if (to != nullptr) to[at] = add ? to[at] + value : value;
}

// ---------------------------------------------------------------- over the last dimension

// The normal form of a row is (x - mean) * inverse; the RMS form has a mean of 0.
template <typename T>
struct RowStatistics {
  T mean, inverse;

  RowStatistics(const T* x, uint64_t features, T eps, bool is_rms) : mean(0) {
    const T share = T{1} / static_cast<T>(features);
    T sum = 0, squares = 0;
    for (uint64_t i = 0; !is_rms && i < features; ++i) sum += x[i];
    mean = sum * share;
    for (uint64_t i = 0; i < features; ++i) squares += (x[i] - mean) * (x[i] - mean);
    inverse = T{1} / std::sqrt(squares * share + eps);
  }
};

Result<Tensor> run_layer_norm(Context& context, const LayerNormArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  if (y.count() == 0) return y;
  const uint64_t features = y.dims().back();
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    BALLAST_TRY(const auto beta, Values<T>::of(context, args.beta));
    each(context, y.dims().leading(), [&](size_t row) {
      const T* x = host_data<const T>(args.x) + row * features;
      T* out = host_data<T>(y) + row * features;
      const RowStatistics<T> s(x, features, static_cast<T>(args.eps), false);
      for (uint64_t i = 0; i < features; ++i) out[i] = (x[i] - s.mean) * s.inverse * gamma[i] + beta[i];
    });
    return {};
  }));
  return y;
}

Result<Tensor> run_rms_norm(Context& context, const RmsNormArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  if (y.count() == 0) return y;
  const uint64_t features = y.dims().back();
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    const auto shift = static_cast<T>(args.shift);
    each(context, y.dims().leading(), [&](size_t row) {
      const T* x = host_data<const T>(args.x) + row * features;
      T* out = host_data<T>(y) + row * features;
      const RowStatistics<T> s(x, features, static_cast<T>(args.eps), true);
      for (uint64_t i = 0; i < features; ++i) out[i] = x[i] * s.inverse * (gamma[i] + shift);
    });
    return {};
  }));
  return y;
}

// With n the normal form and g = dy * gamma: dx = inverse * (g - mean of g - n * mean of g n), where the mean of g
// counts only if x was centred.
template <typename T>
void norm_row_back(const NormGradientArgs& args, const Values<T>& gamma, uint64_t row) {
  const uint64_t features = args.dy.dims().back();
  const T* x = host_data<const T>(args.x) + row * features;
  const T* dy = host_data<const T>(args.dy) + row * features;
  T* dx = host_data<T>(*args.dx) + row * features;
  const RowStatistics<T> s(x, features, static_cast<T>(args.eps), args.is_rms);
  const T share = T{1} / static_cast<T>(features), shift = static_cast<T>(args.shift);
  T sum = 0, product = 0;
  for (uint64_t i = 0; i < features; ++i) {
    const T g = dy[i] * (gamma[i] + shift);
    sum += g;
    product += g * ((x[i] - s.mean) * s.inverse);
  }
  const T level = args.is_rms ? T{0} : sum * share, slope = product * share;
  for (uint64_t i = 0; i < features; ++i) {
    dx[i] = s.inverse * (dy[i] * (gamma[i] + shift) - level - (x[i] - s.mean) * s.inverse * slope);
  }
}

// dgamma and dbeta: sums over rows, whose statistics are computed again for each column. That needs no memory.
template <typename T>
void norm_column_back(const NormGradientArgs& args, uint64_t column) {
  const uint64_t features = args.dy.dims().back();
  T scale = 0, shift = 0;
  for (uint64_t row = 0; row < args.dy.dims().leading(); ++row) {
    const T* x = host_data<const T>(args.x) + row * features;
    const RowStatistics<T> s(x, features, static_cast<T>(args.eps), args.is_rms);
    const T dy = host_data<const T>(args.dy)[row * features + column];
    scale += dy * ((x[column] - s.mean) * s.inverse);
    shift += dy;
  }
  put(data_or_null<T>(args.dgamma), column, scale, args.add);
  put(data_or_null<T>(args.dbeta), column, shift, args.add);
}

Status run_norm_gradient(Context& context, const NormGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    if (args.dx != nullptr) {
      each(context, args.dy.dims().leading(), [&](size_t row) { norm_row_back(args, gamma, row); });
    }
    if (args.dgamma != nullptr || args.dbeta != nullptr) {
      each(context, args.dy.dims().back(), [&](size_t column) { norm_column_back<T>(args, column); });
    }
    return {};
  });
}

// ---------------------------------------------------------------- over a batch

Result<Tensor> run_batch_statistics(Context& context, const BatchStatisticsArgs& args) {
  const uint64_t channels = args.x.dims().back(), rows = args.x.dims().leading();
  BALLAST_TRY(Tensor y, context.workspace().make({2, channels}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    each(context, channels, [&](size_t c) {
      T sum = 0, squares = 0;
      for (uint64_t row = 0; row < rows; ++row) sum += x[row * channels + c];
      const T mean = sum / static_cast<T>(rows);
      for (uint64_t row = 0; row < rows; ++row) {
        const T distance = x[row * channels + c] - mean;
        squares += distance * distance;
      }
      host_data<T>(y)[c] = mean;
      host_data<T>(y)[channels + c] = squares / static_cast<T>(rows);
    });
  });
  return y;
}

// (x - mean) / sqrt(variance + eps) * gamma + beta; mean(c) and variance(c) are those of a channel.
template <typename T, typename Mean, typename Variance, typename Args>
Status normalise_channels(Context& context, const Args& args, const Mean& mean, const Variance& variance, Tensor& y) {
  BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
  BALLAST_TRY(const auto beta, Values<T>::of(context, args.beta));
  const uint64_t channels = y.dims().back();
  const T* x = host_data<const T>(args.x);
  T* out = host_data<T>(y);
  each_element(context, y.count(), [&](size_t i) {
    const uint64_t c = i % channels;
    const T factor = gamma[c] / std::sqrt(variance(c) + static_cast<T>(args.eps));
    out[i] = (x[i] - mean(c)) * factor + beta[c];
  });
  return {};
}

Result<Tensor> run_batch_norm_training(Context& context, const BatchNormTrainingArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() {
    const T* means = host_data<const T>(args.statistics);
    const T* variances = means + y.dims().back();
    return normalise_channels<T>(
        context, args, [&](uint64_t c) { return means[c]; }, [&](uint64_t c) { return variances[c]; }, y);
  }));
  return y;
}

Result<Tensor> run_batch_norm(Context& context, const BatchNormArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto means, Values<T>::of(context, args.mean));
    BALLAST_TRY(const auto variances, Values<T>::of(context, args.variance));
    return normalise_channels<T>(
        context, args, [&](uint64_t c) { return means[c]; }, [&](uint64_t c) { return variances[c]; }, y);
  }));
  return y;
}

template <typename T>
void batch_channel_back(const BatchNormGradientArgs& args, uint64_t c, T mean, T variance, T gamma) {
  const uint64_t rows = args.dy.dims().leading(), channels = args.dy.dims().back();
  const T* x = host_data<const T>(args.x);
  const T* dy = host_data<const T>(args.dy);
  T* dx = data_or_null<T>(args.dx);
  const T inverse = T{1} / std::sqrt(variance + static_cast<T>(args.eps));
  T scale = 0, shift = 0;
  for (uint64_t i = c; i < rows * channels; i += channels) {
    scale += dy[i] * ((x[i] - mean) * inverse);
    shift += dy[i];
  }
  put(data_or_null<T>(args.dgamma), c, scale, args.add);
  put(data_or_null<T>(args.dbeta), c, shift, args.add);
  const T share = args.statistics == nullptr ? T{0} : T{1} / static_cast<T>(rows);
  for (uint64_t i = c; dx != nullptr && i < rows * channels; i += channels) {
    const T normal = (x[i] - mean) * inverse;
    dx[i] = gamma * inverse * (dy[i] - share * shift - normal * (share * scale));
  }
}

Status run_batch_norm_gradient(Context& context, const BatchNormGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    BALLAST_TRY(const auto means, Values<T>::of(context, args.mean));
    BALLAST_TRY(const auto variances, Values<T>::of(context, args.variance));
    const uint64_t channels = args.dy.dims().back();
    const T* statistics = args.statistics != nullptr ? host_data<const T>(*args.statistics) : nullptr;
    each(context, channels, [&](size_t c) {
      const T mean = statistics != nullptr ? statistics[c] : means[c];
      const T variance = statistics != nullptr ? statistics[channels + c] : variances[c];
      batch_channel_back(args, c, mean, variance, gamma[c]);
    });
    return {};
  });
}

// ---------------------------------------------------------------- over groups of channels

// One group of channels of one NHWC image.
struct Group {
  uint64_t image, positions, channels, first, width;

  Group(const Dims& x, uint64_t groups, uint64_t index)
      : image(index / groups),
        positions(x[1] * x[2]),
        channels(x[3]),
        first(index % groups * (x[3] / groups)),
        width(x[3] / groups) {}

  uint64_t size() const { return positions * width; }
  uint64_t channel(uint64_t i) const { return first + i % width; }
  // Where element i of the group lies.
  uint64_t place(uint64_t i) const { return (image * positions + i / width) * channels + channel(i); }
};

template <typename T>
struct GroupStatistics {
  T mean, inverse;

  GroupStatistics(const Group& group, const T* x, float eps) {
    const auto count = static_cast<double>(group.size());
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < group.size(); ++i) sum += static_cast<double>(x[group.place(i)]);
    for (uint64_t i = 0; i < group.size(); ++i) {
      const double distance = static_cast<double>(x[group.place(i)]) - sum / count;
      squares += distance * distance;
    }
    mean = static_cast<T>(sum / count);
    inverse = static_cast<T>(1 / std::sqrt(squares / count + static_cast<double>(eps)));
  }
};

Result<Tensor> run_group_norm(Context& context, const GroupNormArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    BALLAST_TRY(const auto beta, Values<T>::of(context, args.beta));
    const T* x = host_data<const T>(args.x);
    each(context, y.dims()[0] * args.groups, [&](size_t index) {
      const Group group(y.dims(), args.groups, index);
      const GroupStatistics<T> s(group, x, args.eps);
      for (uint64_t i = 0; i < group.size(); ++i) {
        const uint64_t at = group.place(i), c = group.channel(i);
        host_data<T>(y)[at] = (x[at] - s.mean) * s.inverse * gamma[c] + beta[c];
      }
    });
    return {};
  }));
  return y;
}

template <typename T>
void group_back(const GroupNormGradientArgs& args, const Group& group, const Values<T>& gamma) {
  const T* x = host_data<const T>(args.x);
  const T* dy = host_data<const T>(args.dy);
  T* dx = data_or_null<T>(args.dx);
  T* terms = data_or_null<T>(args.terms);
  const GroupStatistics<T> s(group, x, args.eps);
  const auto normal = [&](uint64_t at) { return (x[at] - s.mean) * s.inverse; };
  double sum = 0, product = 0;
  for (uint64_t i = 0; i < group.size(); ++i) {
    const uint64_t at = group.place(i);
    const T g = dy[at] * gamma[group.channel(i)];
    sum += static_cast<double>(g);
    product += static_cast<double>(g * normal(at));
    if (terms != nullptr) terms[at] = dy[at] * normal(at);
  }
  const auto level = static_cast<T>(sum / static_cast<double>(group.size()));
  const auto slope = static_cast<T>(product / static_cast<double>(group.size()));
  for (uint64_t i = 0; dx != nullptr && i < group.size(); ++i) {
    const uint64_t at = group.place(i);
    dx[at] = s.inverse * (dy[at] * gamma[group.channel(i)] - level - normal(at) * slope);
  }
}

Status run_group_norm_gradient(Context& context, const GroupNormGradientArgs& args) {
  if (args.dy.count() == 0) return {};
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto gamma, Values<T>::of(context, args.gamma));
    each(context, args.dy.dims()[0] * args.groups,
         [&](size_t index) { group_back(args, Group(args.dy.dims(), args.groups, index), gamma); });
    return {};
  });
}

}  // namespace

void add_normalization(Registry& registry) {
  registry.add_builtin<LayerNormArgs>(nullptr, run_layer_norm);
  registry.add_builtin<RmsNormArgs>(nullptr, run_rms_norm);
  registry.add_builtin<BatchStatisticsArgs>(nullptr, run_batch_statistics);
  registry.add_builtin<BatchNormTrainingArgs>(nullptr, run_batch_norm_training);
  registry.add_builtin<BatchNormArgs>(nullptr, run_batch_norm);
  registry.add_builtin<GroupNormArgs>(nullptr, run_group_norm);
  registry.add_routine(run_norm_gradient);
  registry.add_routine(run_batch_norm_gradient);
  registry.add_routine(run_group_norm_gradient);
}

}  // namespace ballast::reference
