// Kernels that sum or compare along a row, or over the pixels of an image.
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

// Elements that are worth another thread.
constexpr size_t kPiece = 8192;
HWY_INLINE size_t rows_at_once(size_t features) { return larger(1, kPiece / larger(1, features)); }

struct Square {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, x); }
};

float inverse_root(float x) { return hn::GetLane(hn::Div(splat(1.0F), hn::Sqrt(splat(x)))); }

void layer_norm(const NormProblem<float>& p, ThreadPool& pool) {
  const auto features = static_cast<float>(p.features);
  pool.for_ranges(p.rows, rows_at_once(p.features), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const float* x = p.x + row * p.features;
      float* y = p.y + row * p.features;
      const Vector mean = splat(sum_of(x, p.features, [](Vector v) HWY_ATTR { return v; }) / features);
      const float squares = sum_of(x, p.features, [&](Vector v) HWY_ATTR { return Square()(hn::Sub(v, mean)); });
      const Vector scale = splat(inverse_root(squares / features + p.eps));
      const auto normal = [&](Vector v, Vector gamma, Vector beta)
                              HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, mean), scale), gamma, beta); };
      size_t i = 0;
      for (; i + kLanes <= p.features; i += kLanes) {
        store(normal(load(x + i), load(p.gamma + i), p.beta != nullptr ? load(p.beta + i) : zeros()), y + i);
      }
      if (const size_t rest = p.features - i; rest != 0) {
        const Vector beta = p.beta != nullptr ? load_part(p.beta + i, rest) : zeros();
        store_part(normal(load_part(x + i, rest), load_part(p.gamma + i, rest), beta), y + i, rest);
      }
    }
  });
}

void rms_norm(const NormProblem<float>& p, ThreadPool& pool) {
  pool.for_ranges(p.rows, rows_at_once(p.features), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const float* x = p.x + row * p.features;
      const float mean = sum_of(x, p.features, Square()) / static_cast<float>(p.features);
      const Vector scale = splat(inverse_root(mean + p.eps));
      map(x, p.gamma, p.y + row * p.features, p.features,
          [&](Vector v, Vector gamma) HWY_ATTR { return hn::Mul(hn::Mul(v, scale), gamma); });
    }
  });
}

void softmax(const float* x, float* y, uint64_t rows, uint64_t features, ThreadPool& pool) {
  pool.for_ranges(rows, rows_at_once(features), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const float* from = x + row * features;
      float* to = y + row * features;
      const Vector shift = splat(largest_of(from, features));
      map(from, to, features, [&](Vector v) HWY_ATTR { return exponential(hn::Sub(v, shift)); });
      const Vector total = splat(sum_of(to, features, [](Vector v) HWY_ATTR { return v; }));
      map(to, to, features, [&](Vector v) HWY_ATTR { return hn::Div(v, total); });
    }
  });
}

// One head: (a, b) becomes (a cos - b sin, b cos + a sin), a in the first half and b in the second.
void turn_head(float* head, const float* cosines, const float* sines, size_t half) {
  const auto turn = [&](size_t i, size_t count) HWY_ATTR {
    const bool whole = count == kLanes;
    const auto get = [&](const float* from) HWY_ATTR { return whole ? load(from) : load_part(from, count); };
    const auto put = [&](Vector v, float* to) HWY_ATTR {
      if (whole) store(v, to);
      else store_part(v, to, count);
    };
    const Vector a = get(head + i), b = get(head + half + i);
    const Vector cosine = get(cosines + i), sine = get(sines + i);
    put(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)), head + i);
    put(hn::Add(hn::Mul(b, cosine), hn::Mul(a, sine)), head + half + i);
  };
  size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) turn(i, kLanes);
  if (i < half) turn(i, half - i);
}

// The same with a and b side by side.
void turn_pairs(float* head, const float* cosines, const float* sines, size_t half) {
  const auto turn = [&](float* pairs, Vector cosine, Vector sine) HWY_ATTR {
    Vector a, b;
    hn::LoadInterleaved2(Floats(), pairs, a, b);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)), hn::Add(hn::Mul(b, cosine), hn::Mul(a, sine)),
                          Floats(), pairs);
  };
  size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) turn(head + 2 * i, load(cosines + i), load(sines + i));
  if (const size_t rest = half - i; rest != 0) {
    HWY_ALIGN float pairs[2 * kLanes] = {};
    std::memcpy(pairs, head + 2 * i, 2 * rest * sizeof(float));
    turn(pairs, load_part(cosines + i, rest), load_part(sines + i, rest));
    std::memcpy(head + 2 * i, pairs, 2 * rest * sizeof(float));
  }
}

void rope(const RopeProblem<float>& p, ThreadPool& pool) {
  const auto turn = p.interleaved ? turn_pairs : turn_head;
  const size_t half = p.rotary_dim / 2;
  pool.for_ranges(p.positions, rows_at_once(p.heads * p.rotary_dim), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t position = begin; position < end; ++position) {
      for (size_t head = 0; head < p.heads; ++head) {
        turn(p.x + position * p.stride + head * p.head_dim, p.cosines + position * half, p.sines + position * half,
             half);
      }
    }
  });
}

// y = the largest over count_y x count_x pixels, NaN where one is NaN.
void pool_window(const float* x, float* y, size_t c, size_t count_y, size_t count_x, size_t row_stride) {
  const auto at = [&](size_t i, size_t count) HWY_ATTR {
    Vector most = splat(-__builtin_inff());
    for (size_t dy = 0; dy < count_y; ++dy) {
      for (size_t dx = 0; dx < count_x; ++dx) {
        const float* from = x + dy * row_stride + dx * c + i;
        const Vector v = count == kLanes ? load(from) : load_part(from, count);
        most = hn::IfThenElse(hn::Or(hn::Gt(v, most), hn::IsNaN(v)), v, most);
      }
    }
    return most;
  };
  size_t i = 0;
  for (; i + kLanes <= c; i += kLanes) store(at(i, kLanes), y + i);
  if (i < c) store_part(at(i, c - i), y + i, c - i);
}

// y = the sum over count_y x count_x pixels, divided by `window`.
void average_window(const float* x, float* y, size_t c, size_t count_y, size_t count_x, size_t row_stride,
                    float window) {
  const auto at = [&](size_t i, size_t count) HWY_ATTR {
    Vector sum = zeros();
    for (size_t dy = 0; dy < count_y; ++dy) {
      for (size_t dx = 0; dx < count_x; ++dx) {
        const float* from = x + dy * row_stride + dx * c + i;
        sum = hn::Add(sum, count == kLanes ? load(from) : load_part(from, count));
      }
    }
    return hn::Div(sum, splat(window));
  };
  size_t i = 0;
  for (; i + kLanes <= c; i += kLanes) store(at(i, kLanes), y + i);
  if (i < c) store_part(at(i, c - i), y + i, c - i);
}

// [begin, end) of a window that lies inside an axis.
struct Span {
  size_t begin, end;
};
Span window_span(size_t out, size_t stride, size_t pad, size_t window, size_t size) {
  const size_t begin = out * stride;  // in the padded axis
  const size_t first = larger(begin, pad) - pad;
  const size_t last = begin + window > pad ? smaller(begin + window - pad, size) : 0;
  return {smaller(first, last), last};
}

// pool_one(from, to, pixels down, pixels across) for the part of each window that lies inside the image.
template <class PoolOne>
HWY_INLINE void for_each_window(const Pool2dProblem<float>& p, ThreadPool& pool, const PoolOne& pool_one) {
  pool.for_ranges(p.n * p.out_h, rows_at_once(p.out_w * p.c), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const float* image = p.x + row / p.out_h * p.h * p.width * p.c;
      const Span ys = window_span(row % p.out_h, p.stride_h, p.pad_top, p.window_h, p.h);
      for (size_t x = 0; x < p.out_w; ++x) {
        const Span xs = window_span(x, p.stride_w, p.pad_left, p.window_w, p.width);
        pool_one(image + (ys.begin * p.width + xs.begin) * p.c, p.y + (row * p.out_w + x) * p.c, ys.end - ys.begin,
                 xs.end - xs.begin);
      }
    }
  });
}

void max_pool2d(const Pool2dProblem<float>& p, ThreadPool& pool) {
  for_each_window(p, pool, [&](const float* from, float* to, size_t count_y, size_t count_x) HWY_ATTR {
    pool_window(from, to, p.c, count_y, count_x, p.width * p.c);
  });
}

void avg_pool2d(const Pool2dProblem<float>& p, ThreadPool& pool) {
  const auto window = static_cast<float>(p.window_h * p.window_w);
  for_each_window(p, pool, [&](const float* from, float* to, size_t count_y, size_t count_x) HWY_ATTR {
    average_window(from, to, p.c, count_y, count_x, p.width * p.c, window);
  });
}

void mean_over_positions(const float* x, float* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool& pool) {
  // Pieces are channels of one image: whole cache lines, however many images there are.
  constexpr size_t kChannels = 64;
  const size_t parts = divide_up(c, kChannels);
  const Vector count = splat(static_cast<float>(positions));
  pool.for_ranges(n * parts, rows_at_once(positions * kChannels), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t part = begin; part < end; ++part) {
      const size_t first = part % parts * kChannels;
      const size_t channels = smaller(kChannels, c - first);
      float* to = y + part / parts * c + first;
      std::memset(to, 0, channels * sizeof(float));
      for (size_t position = 0; position < positions; ++position) {
        map(to, x + (part / parts * positions + position) * c + first, to, channels,
            [](Vector sum, Vector v) HWY_ATTR { return hn::Add(sum, v); });
      }
      map(to, to, channels, [&](Vector sum) HWY_ATTR { return hn::Div(sum, count); });
    }
  });
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu {

HWY_EXPORT(layer_norm);
HWY_EXPORT(rms_norm);
HWY_EXPORT(softmax);
HWY_EXPORT(rope);
HWY_EXPORT(max_pool2d);
HWY_EXPORT(avg_pool2d);
HWY_EXPORT(mean_over_positions);

void layer_norm(const NormProblem<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(layer_norm)(problem, pool);
}
void rms_norm(const NormProblem<float>& problem, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(rms_norm)(problem, pool); }
void softmax(const float* x, float* y, uint64_t rows, uint64_t features, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(softmax)(x, y, rows, features, pool);
}
void rope(const RopeProblem<float>& problem, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(rope)(problem, pool); }
void max_pool2d(const Pool2dProblem<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(max_pool2d)(problem, pool);
}
void avg_pool2d(const Pool2dProblem<float>& problem, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(avg_pool2d)(problem, pool);
}
void mean_over_positions(const float* x, float* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(mean_over_positions)(x, y, n, positions, c, pool);
}

}  // namespace ballast::cpu
#endif
