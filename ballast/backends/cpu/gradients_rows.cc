// Gradients of what sums along rows: softmax, normalisations, cross entropy.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// Elements that are worth another thread.
constexpr size_t kRowsWorth = 8192;
HWY_INLINE size_t rows_worth(size_t features) { return larger(1, kRowsWorth / larger(1, features)); }

HWY_INLINE float inverse_root_of(float x) { return hn::GetLane(hn::Div(splat(1.0F), hn::Sqrt(splat(x)))); }

void softmax(const float* y, const float* dy, float* dx, uint64_t rows, uint64_t features, ThreadPool& pool) {
  pool.for_ranges(rows, rows_worth(features), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const float* share = y + row * features;
      const float* gradient = dy + row * features;
      const Vector mean = splat(sum_vectors(features, [&](size_t i, size_t lanes) HWY_ATTR {
        return hn::Mul(load_some(share + i, lanes), load_some(gradient + i, lanes));
      }));
      map(share, gradient, dx + row * features, features,
          [&](Vector s, Vector g) HWY_ATTR { return hn::Mul(s, hn::Sub(g, mean)); });
    }
  });
}

// ---------------------------------------------------------------- normalisation of rows
// Rows whose statistics are kept on the stack.
constexpr size_t kNormRows = 512;
struct RowStatistics {
  float mean[kNormRows];
  float scale[kNormRows];  // 1 / sqrt(variance + eps)
};

template <bool kCentred>
HWY_INLINE void take_statistics(const NormGradient<float>& p, const float* x, float* mean_to, float* scale_to) {
  const auto features = static_cast<float>(p.features);
  float mean = 0;
  if constexpr (kCentred) {
    mean = sum_vectors(p.features, [&](size_t i, size_t lanes) HWY_ATTR { return load_some(x + i, lanes); }) / features;
  }
  const Vector shift = splat(mean);
  const float squares = sum_vectors(p.features, [&](size_t i, size_t lanes) HWY_ATTR {
    const Vector v = kCentred ? hn::Sub(load_some(x + i, lanes), shift) : load_some(x + i, lanes);
    return hn::Mul(v, v);
  });
  *mean_to = mean;
  *scale_to = inverse_root_of(squares / features + p.eps);
}

// dx = scale * (g - mean(g) - n * mean(g n)), g = dy gamma, n the normalised x; without mean(g) in the RMS form.
template <bool kCentred>
HWY_INLINE void row_gradient(const NormGradient<float>& p, size_t row, float mean_of_row, float scale_of_row) {
  const float* x = p.x + row * p.features;
  const float* dy = p.dy + row * p.features;
  const Vector mean = splat(mean_of_row), scale = splat(scale_of_row);
  const auto normal = [&](size_t i, size_t lanes)
                          HWY_ATTR { return hn::Mul(hn::Sub(load_some(x + i, lanes), mean), scale); };
  const auto inner = [&](size_t i, size_t lanes)
                         HWY_ATTR { return hn::Mul(load_some(dy + i, lanes), load_some(p.gamma + i, lanes)); };
  const auto features = static_cast<float>(p.features);
  const float first = kCentred ? sum_vectors(p.features, inner) / features : 0;
  const float second = sum_vectors(p.features, [&](size_t i, size_t lanes)
                                                   HWY_ATTR { return hn::Mul(inner(i, lanes), normal(i, lanes)); }) /
                       features;
  const Vector shift = splat(first), slope = splat(second);
  float* dx = p.dx + row * p.features;
  for_vectors(p.features, [&](size_t i, size_t lanes) HWY_ATTR {
    const Vector rest = hn::Sub(hn::Sub(inner(i, lanes), shift), hn::Mul(normal(i, lanes), slope));
    store_some(hn::Mul(scale, rest), dx + i, lanes);
  });
}

void add_norm_sums(const NormGradient<float>& p, const RowStatistics& statistics, size_t first_row, size_t rows,
                   ThreadPool& pool) {
  for (size_t begin = 0; begin < p.features; begin += kSumColumns) {
    const size_t columns = smaller(kSumColumns, p.features - begin);
    ColumnSums<2> totals;
    sum_columns(rows, columns, totals, pool, [&](size_t row, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
      const size_t at = (first_row + row) * p.features + begin + i;
      const Vector dy = load_some(p.dy + at, lanes);
      const Vector centred = hn::Sub(load_some(p.x + at, lanes), splat(statistics.mean[row]));
      sums[0] = hn::Add(sums[0], hn::Mul(dy, hn::Mul(centred, splat(statistics.scale[row]))));
      sums[1] = hn::Add(sums[1], dy);
    });
    const bool add = p.add || first_row != 0;
    if (p.dgamma != nullptr) put_sums(totals.of[0], p.dgamma + begin, columns, add);
    if (p.dbeta != nullptr) put_sums(totals.of[1], p.dbeta + begin, columns, add);
  }
}

template <bool kCentred>
void norm(const NormGradient<float>& p, ThreadPool& pool) {
  size_t first = 0;
  do {
    const size_t rows = smaller(kNormRows, p.rows - first);
    RowStatistics statistics;
    pool.for_ranges(rows, rows_worth(p.features), [&](size_t begin, size_t end) HWY_ATTR {
      for (size_t row = begin; row < end; ++row) {
        float* mean = statistics.mean + row;
        float* scale = statistics.scale + row;
        take_statistics<kCentred>(p, p.x + (first + row) * p.features, mean, scale);
        if (p.dx != nullptr) row_gradient<kCentred>(p, first + row, *mean, *scale);
      }
    });
    if (p.dgamma != nullptr || p.dbeta != nullptr) add_norm_sums(p, statistics, first, rows, pool);
    first += rows;
  } while (first < p.rows);
}

void layer_norm(const NormGradient<float>& p, ThreadPool& pool) { norm<true>(p, pool); }
void rms_norm(const NormGradient<float>& p, ThreadPool& pool) { norm<false>(p, pool); }

// ---------------------------------------------------------------- normalisation of channels
void batch_statistics(const float* x, float* mean, float* variance, uint64_t rows, uint64_t channels,
                      ThreadPool& pool) {
  const Vector count = splat(static_cast<float>(rows));
  for (size_t begin = 0; begin < channels; begin += kSumColumns) {
    const size_t columns = smaller(kSumColumns, channels - begin);
    ColumnSums<1> totals;
    sum_columns(rows, columns, totals, pool, [&](size_t row, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
      sums[0] = hn::Add(sums[0], load_some(x + row * channels + begin + i, lanes));
    });
    map(totals.of[0], mean + begin, columns, [&](Vector sum) HWY_ATTR { return hn::Div(sum, count); });
    sum_columns(rows, columns, totals, pool, [&](size_t row, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
      const Vector v = load_some(x + row * channels + begin + i, lanes);
      const Vector centred = hn::Sub(v, load_some(mean + begin + i, lanes));
      sums[0] = hn::Add(sums[0], hn::Mul(centred, centred));
    });
    map(totals.of[0], variance + begin, columns, [&](Vector sum) HWY_ATTR { return hn::Div(sum, count); });
  }
}

// dx = gamma * scale * (dy - mean(dy) - n * mean(dy n)), or gamma * scale * dy where the statistics are constants.
void batch_norm_block(const BatchNormGradient<float>& p, size_t first, size_t columns, ThreadPool& pool) {
  HWY_ALIGN float scale[kSumColumns];
  ColumnSums<2> totals;
  map(p.variance + first, scale, columns,
      [&](Vector v) HWY_ATTR { return hn::Div(splat(1.0F), hn::Sqrt(hn::Add(v, splat(p.eps)))); });
  const auto normal = [&](size_t at, size_t i, size_t lanes) HWY_ATTR {
    const Vector centred = hn::Sub(load_some(p.x + at, lanes), load_some(p.mean + first + i, lanes));
    return hn::Mul(centred, load_some(scale + i, lanes));
  };
  if (!p.constant_statistics || p.dgamma != nullptr || p.dbeta != nullptr) {
    sum_columns(p.rows, columns, totals, pool, [&](size_t row, size_t i, size_t lanes, Vector* sums) HWY_ATTR {
      const size_t at = row * p.channels + first + i;
      const Vector dy = load_some(p.dy + at, lanes);
      sums[0] = hn::Add(sums[0], hn::Mul(dy, normal(at, i, lanes)));
      sums[1] = hn::Add(sums[1], dy);
    });
    if (p.dgamma != nullptr) put_sums(totals.of[0], p.dgamma + first, columns, p.add);
    if (p.dbeta != nullptr) put_sums(totals.of[1], p.dbeta + first, columns, p.add);
  }
  if (p.dx == nullptr) return;
  const Vector count = splat(static_cast<float>(p.rows));
  for (float* sums : totals.of) {
    if (p.constant_statistics) std::memset(sums, 0, columns * sizeof(float));
    else map(sums, sums, columns, [&](Vector sum) HWY_ATTR { return hn::Div(sum, count); });
  }
  pool.for_ranges(p.rows, rows_worth(columns), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      for_vectors(columns, [&](size_t i, size_t lanes) HWY_ATTR {
        const size_t at = row * p.channels + first + i;
        const Vector centred = hn::Sub(load_some(p.dy + at, lanes), load_some(totals.of[1] + i, lanes));
        const Vector slope = hn::Mul(normal(at, i, lanes), load_some(totals.of[0] + i, lanes));
        const Vector factor = hn::Mul(load_some(p.gamma + first + i, lanes), load_some(scale + i, lanes));
        store_some(hn::Mul(factor, hn::Sub(centred, slope)), p.dx + at, lanes);
      });
    }
  });
}

void batch_norm(const BatchNormGradient<float>& p, ThreadPool& pool) {
  for (size_t first = 0; first < p.channels; first += kSumColumns) {
    batch_norm_block(p, first, smaller(kSumColumns, p.channels - first), pool);
  }
}

// ---------------------------------------------------------------- cross entropy
HWY_INLINE bool is_ignored(const CrossEntropyProblem<float>& p, size_t row) {
  return p.labels != nullptr && p.labels[row] == p.ignored;
}

float row_loss(const CrossEntropyProblem<float>& p, size_t row) {
  if (is_ignored(p, row)) return 0;
  const float* z = p.logits + row * p.classes;
  const float largest = largest_of(z, p.classes);
  const Vector shift = splat(largest);
  const float sum = sum_of(z, p.classes, [&](Vector v) HWY_ATTR { return exponential(hn::Sub(v, shift)); });
  const float total = __builtin_logf(sum);
  if (p.labels != nullptr) return total - (z[p.labels[row]] - largest);
  const float* targets = p.targets + row * p.classes;
  return sum_vectors(p.classes, [&](size_t i, size_t lanes) HWY_ATTR {
    const Vector cost = hn::Sub(splat(total), hn::Sub(load_some(z + i, lanes), shift));
    return hn::Mul(load_some(targets + i, lanes), cost);
  });
}

void cross_entropy(const CrossEntropyProblem<float>& p, ThreadPool& pool) {
  pool.for_ranges(p.rows, rows_worth(p.classes), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) p.losses[row] = row_loss(p, row);
  });
}

void loss_gradient(const CrossEntropyProblem<float>& p, float scale, size_t row, float* dz) {
  const float* z = p.logits + row * p.classes;
  const Vector shift = splat(largest_of(z, p.classes));
  map(z, dz, p.classes, [&](Vector v) HWY_ATTR { return exponential(hn::Sub(v, shift)); });
  const float sum = sum_of(dz, p.classes, Identity());
  if (p.labels != nullptr) {
    const Vector factor = splat(scale / sum);
    map(dz, dz, p.classes, [&](Vector e) HWY_ATTR { return hn::Mul(e, factor); });
    dz[p.labels[row]] -= scale;
    return;
  }
  const float* targets = p.targets + row * p.classes;
  const Vector factor = splat(sum_of(targets, p.classes, Identity()) / sum);
  map(dz, targets, dz, p.classes,
      [&](Vector e, Vector t) HWY_ATTR { return hn::Mul(splat(scale), hn::Sub(hn::Mul(e, factor), t)); });
}

void cross_entropy_gradient(const CrossEntropyProblem<float>& p, float scale, float* dlogits, ThreadPool& pool) {
  pool.for_ranges(p.rows, rows_worth(p.classes), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      float* dz = dlogits + row * p.classes;
      if (is_ignored(p, row)) std::memset(dz, 0, p.classes * sizeof(float));
      else loss_gradient(p, scale, row, dz);
    }
  });
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(softmax);
HWY_EXPORT(layer_norm);
HWY_EXPORT(rms_norm);
HWY_EXPORT(batch_statistics);
HWY_EXPORT(batch_norm);
HWY_EXPORT(cross_entropy);
HWY_EXPORT(cross_entropy_gradient);

void softmax(const float* y, const float* dy, float* dx, uint64_t rows, uint64_t features, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(softmax)(y, dy, dx, rows, features, pool);
}
void layer_norm(const NormGradient<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(layer_norm)(problem, pool);
}
void rms_norm(const NormGradient<float>& problem, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(rms_norm)(problem, pool); }
void batch_statistics(const float* x, float* mean, float* variance, uint64_t rows, uint64_t channels,
                      ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(batch_statistics)(x, mean, variance, rows, channels, pool);
}
void batch_norm(const BatchNormGradient<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(batch_norm)(problem, pool);
}
void cross_entropy(const CrossEntropyProblem<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(cross_entropy)(problem, pool);
}
void cross_entropy_gradient(const CrossEntropyProblem<float>& problem, float scale, float* dlogits, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_gradient)(problem, scale, dlogits, pool);
}

}  // namespace ballast::cpu::gradients
#endif
