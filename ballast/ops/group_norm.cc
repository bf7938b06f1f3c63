#include <fmt/format.h>

#include <cmath>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

// No backend has kernels for this: a piece of work is one group of one image, which is a chain of its own.
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
  const T* x = args.x.data<T>();
  T* to = y.writable<T>();
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

struct GroupNormStep {
  uint64_t groups;
  Param gamma, beta;
  bool to_gamma, to_beta;
  float eps;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (to_beta) {
      BALLAST_TRY(const GradientPlace place, tape.place(beta, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, dy, place));
    }
    if (!to_gamma && !input.is_followed()) return {};
    // dx, and what dgamma is the sum of.
    Tensor dx, terms;
    if (input.is_followed()) {
      BALLAST_TRY(dx, context.workspace().make(dy.dims(), dy.dtype()));
    }
    if (to_gamma) {
      BALLAST_TRY(terms, context.workspace().make(dy.dims(), dy.dtype()));
    }
    BALLAST_CHECK(with_type(dy.dtype(), [&]<typename T>() { return run_pieces<T>(context, dy, dx, terms); }));
    if (to_gamma) {
      BALLAST_TRY(const GradientPlace place, tape.place(gamma, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, terms, place));
    }
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }

  // With n the normal form of x and g = dy * gamma: dx = inverse * (g - mean of g - n * mean of g n).
  template <typename T>
  Status run_pieces(Context& context, const Tensor& dy, Tensor& dx, Tensor& terms) const {
    BALLAST_TRY(const auto scales, ParamValues<T>::take(context, gamma));
    const Groups shape(dy.dims(), groups);
    const T* from = x.data<T>();
    const T* above = dy.data<T>();
    T* to = dx.empty() ? nullptr : dx.writable<T>();
    T* products = terms.empty() ? nullptr : terms.writable<T>();
    context.threads().for_ranges(shape.images * shape.groups, 1, [&](size_t begin, size_t end) {
      for (size_t piece = begin; piece < end; ++piece) {
        const auto [mean, inverse] = statistics_of(shape, piece, from, static_cast<T>(eps));
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
};

}  // namespace

Status GroupNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  BALLAST_CHECK(check_vector("beta", beta, "x", x));
  if (groups != 0 && x.dims()[3] % groups == 0) return {};
  return refused(named("x", x), fmt::format("{} channels do not divide into {} groups", x.dims()[3], groups));
}
std::string GroupNormArgs::text() const { return fmt::format("{} groups {} gamma {}", typed(x), groups, typed(gamma)); }

void GroupNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, GroupNormStep{groups, gamma, beta, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

Result<Tensor> group_norm(Context& context, const Tensor& x, uint64_t groups, const Param& gamma, const Param& beta,
                          float eps) {
  return context.registry().call(context, GroupNormArgs{x, groups, gamma, beta, eps});
}

void add_group_norm(Registry& registry) { add_builtin(registry, supports_group_norm, run_group_norm); }

}  // namespace ballast::ops
