#include <cmath>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/normalization.h"

namespace ballast::host {

namespace {

// No table has kernels for this: a piece of work is one group of one image, which is a chain of its own.
struct Groups {
  uint64_t images, positions, channels, groups;

  explicit Groups(const Dims& x, uint64_t group_count)
      : images(x[0]), positions(x[1] * x[2]), channels(x[3]), groups(group_count) {}

  uint64_t width() const { return channels / groups; }
  uint64_t size() const { return positions * width(); }
  // body(i, c) for the elements of one group and their channels, in their order.
  template <typename Body>
  void for_each(uint64_t piece, const Body& body) const {
    const uint64_t first = piece % groups * width();
    for (uint64_t position = 0; position < positions; ++position) {
      const uint64_t at = (piece / groups * positions + position) * channels;
      for (uint64_t c = first; c < first + width(); ++c) body(at + c, c);
    }
  }
};

template <typename T>
struct GroupStatistics {
  T mean, inverse;
};

template <typename T>
GroupStatistics<T> statistics_of(const Groups& groups, uint64_t piece, const T* x, T eps) {
  const auto count = static_cast<double>(groups.size());
  double sum = 0, squares = 0;
  groups.for_each(piece, [&](uint64_t i, uint64_t) { sum += static_cast<double>(x[i]); });
  const double mean = sum / count;
  groups.for_each(piece, [&](uint64_t i, uint64_t) {
    const double distance = static_cast<double>(x[i]) - mean;
    squares += distance * distance;
  });
  return {static_cast<T>(mean), static_cast<T>(1 / std::sqrt(squares / count + static_cast<double>(eps)))};
}

template <typename T>
Status normalise_groups(Context& context, const GroupNormArgs& args, Tensor& y) {
  BALLAST_TRY(const auto gamma, ParamValues<T>::take(context, args.gamma));
  BALLAST_TRY(const auto beta, ParamValues<T>::take(context, args.beta));
  const Groups groups(args.x.dims(), args.groups);
  const T* x = host_data<const T>(args.x);
  T* to = host_data<T>(y);
  context.threads().for_ranges(groups.images * groups.groups, 1, [&](size_t begin, size_t end) {
    for (size_t piece = begin; piece < end; ++piece) {
      const auto statistics = statistics_of(groups, piece, x, static_cast<T>(args.eps));
      groups.for_each(piece, [&](uint64_t i, uint64_t c) {
        to[i] = (x[i] - statistics.mean) * statistics.inverse * gamma.data()[c] + beta.data()[c];
      });
    }
  });
  return {};
}

Result<Tensor> run_group_norm(Context& context, const GroupNormArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return normalise_groups<T>(context, args, y); }));
  return y;
}

bool supports_group_norm(const Context& context, const GroupNormArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.widen; });
}

// With n the normal form of x and g = dy * gamma: dx = inverse * (g - mean of g - n * mean of g n).
template <typename T>
Status group_norm_back(Context& context, const GroupNormGradientArgs& args) {
  BALLAST_TRY(const auto scales, ParamValues<T>::take(context, args.gamma));
  const Groups shape(args.dy.dims(), args.groups);
  const T* from = host_data<const T>(args.x);
  const T* above = host_data<const T>(args.dy);
  T* to = data_or_null<T>(args.dx);
  T* products = data_or_null<T>(args.terms);
  context.threads().for_ranges(shape.images * shape.groups, 1, [&](size_t begin, size_t end) {
    for (size_t piece = begin; piece < end; ++piece) {
      const auto [mean, inverse] = statistics_of(shape, piece, from, static_cast<T>(args.eps));
      double sum = 0, product = 0;
      shape.for_each(piece, [&, mean = mean, inverse = inverse](uint64_t i, uint64_t c) {
        const T normal = (from[i] - mean) * inverse;
        const T g = above[i] * scales.data()[c];
        sum += static_cast<double>(g);
        product += static_cast<double>(g * normal);
        if (products != nullptr) products[i] = above[i] * normal;
      });
      if (to == nullptr) continue;
      const auto level = static_cast<T>(sum / static_cast<double>(shape.size()));
      const auto slope = static_cast<T>(product / static_cast<double>(shape.size()));
      shape.for_each(piece, [&, mean = mean, inverse = inverse](uint64_t i, uint64_t c) {
        to[i] = inverse * (above[i] * scales.data()[c] - level - (from[i] - mean) * inverse * slope);
      });
    }
  });
  return {};
}

Status run_group_norm_gradient(Context& context, const GroupNormGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() { return group_norm_back<T>(context, args); });
}

}  // namespace

void add_group_norm(Registry& registry) {
  registry.add_builtin(supports_group_norm, run_group_norm);
  registry.add_routine(run_group_norm_gradient);
}

}  // namespace ballast::host
