// Gradients of softmax, norms, cross entropy and attention, beside plain loops in double.
#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

TEST(CpuGradients, SoftmaxOfAnyShape) {
  for (const size_t features : {1, 7, 16, 1000}) {
    const size_t rows = 19;
    const auto y = random_floats(rows * features, 1, 0, 1), dy = random_floats(rows * features, 2);
    std::vector<double> expected(y.size());
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = row * features; i < (row + 1) * features; ++i) sum += double{y[i]} * dy[i];
      for (size_t i = row * features; i < (row + 1) * features; ++i) expected[i] = y[i] * (dy[i] - sum);
    }
    expect_gradient(expected, any_values(y.size()), 2e-5,
                    [&](const GradientKernels<float>& kernels, float* dx, ThreadPool& pool) {
                      kernels.softmax(y.data(), dy.data(), dx, rows, features, pool);
                    });
  }
}

// ---------------------------------------------------------------- norms
// [dx, dgamma, dbeta]
std::vector<double> norm_gradient(const std::vector<float>& x, const std::vector<float>& dy,
                                  const std::vector<float>& gamma, std::vector<double> out, bool centred) {
  const size_t features = gamma.size(), rows = x.size() / features;
  const auto width = static_cast<double>(features);
  for (size_t row = 0; row < rows; ++row) {
    const size_t at = row * features;
    double mean = 0, squares = 0, first = 0, second = 0;
    for (size_t i = 0; centred && i < features; ++i) mean += x[at + i] / width;
    for (size_t i = 0; i < features; ++i) squares += (x[at + i] - mean) * (x[at + i] - mean) / width;
    const double scale = 1 / std::sqrt(squares + 1e-5F);
    for (size_t i = 0; i < features; ++i) {
      const double normal = (x[at + i] - mean) * scale;
      first += centred ? dy[at + i] * gamma[i] / width : 0;
      second += dy[at + i] * gamma[i] * normal / width;
      out[x.size() + i] += dy[at + i] * normal;
      out[x.size() + features + i] += dy[at + i];
    }
    for (size_t i = 0; i < features; ++i) {
      out[at + i] = scale * (dy[at + i] * gamma[i] - first - (x[at + i] - mean) * scale * second);
    }
  }
  return out;
}

void check_norm(size_t rows, size_t features, bool centred, bool add) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(features));
  const auto x = random_floats(rows * features, 1, -2, 3), dy = random_floats(rows * features, 2);
  const auto gamma = random_floats(features, 3), before = random_floats(x.size() + 2 * features, 4);
  std::vector<double> out(before.size());
  if (add || !centred) std::copy(before.begin(), before.end(), out.begin());
  if (!centred && !add) std::fill_n(out.begin() + static_cast<ptrdiff_t>(x.size()), features, 0.0);
  std::vector<double> expected = norm_gradient(x, dy, gamma, out, centred);
  // The RMS form has no beta: what is there stays.
  for (size_t i = x.size() + features; !centred && i < before.size(); ++i) expected[i] = before[i];
  expect_gradient(expected, before, 5e-5, [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
    float* dgamma = to + x.size();
    const NormGradient<float> problem{
        x.data(), dy.data(), gamma.data(), to, dgamma, centred ? dgamma + features : nullptr,
        rows,     features,  1e-5F,        add};
    if (centred) kernels.layer_norm(problem, pool);
    else kernels.rms_norm(problem, pool);
  });
}

TEST(CpuGradients, NormsOfAnyShape) {
  for (const bool centred : {true, false}) {
    for (const bool add : {true, false}) {
      for (const size_t rows : {0, 1, 5, 130, 1100}) {
        for (const size_t features : {5, 15, 64, 515}) check_norm(rows, features, centred, add);
      }
    }
  }
}

TEST(CpuGradients, NormsWriteOnlyWhatIsWanted) {
  const size_t rows = 70, features = 33;
  const auto x = random_floats(rows * features, 1), dy = random_floats(rows * features, 2),
             gamma = random_floats(features, 3);
  const auto whole = norm_gradient(x, dy, gamma, std::vector<double>(x.size() + 2 * features), true);
  for (const int wanted : {0, 1, 2}) {
    const size_t begin = wanted == 0 ? 0 : x.size() + static_cast<size_t>(wanted - 1) * features;
    const size_t count = wanted == 0 ? x.size() : features;
    const auto from = whole.begin() + static_cast<ptrdiff_t>(begin);
    expect_gradient({from, from + static_cast<ptrdiff_t>(count)}, any_values(count), 5e-5,
                    [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
                      kernels.layer_norm(
                          {x.data(), dy.data(), gamma.data(), wanted == 0 ? to : nullptr, wanted == 1 ? to : nullptr,
                           wanted == 2 ? to : nullptr, rows, features, 1e-5F, false},
                          pool);
                    });
  }
}

struct Statistics {
  std::vector<float> mean, variance;
};
Statistics statistics_of(const std::vector<float>& x, size_t channels) {
  const size_t rows = x.size() / channels;
  Statistics result;
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (size_t row = 0; row < rows; ++row) mean += x[row * channels + c] / static_cast<double>(rows);
    for (size_t row = 0; row < rows; ++row)
      variance += std::pow(x[row * channels + c] - mean, 2) / static_cast<double>(rows);
    result.mean.push_back(static_cast<float>(mean));
    result.variance.push_back(static_cast<float>(variance));
  }
  return result;
}

TEST(CpuGradients, BatchStatisticsOfAnyShape) {
  for (const size_t rows : {1, 7, 1000}) {
    for (const size_t channels : {1, 17, 64, 600}) {
      const auto x = random_floats(rows * channels, 1, -1, 3);
      const Statistics right = statistics_of(x, channels);
      std::vector<double> expected(right.mean.begin(), right.mean.end());
      expected.insert(expected.end(), right.variance.begin(), right.variance.end());
      expect_gradient(expected, any_values(2 * channels), 2e-5,
                      [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
                        kernels.batch_statistics(x.data(), to, to + channels, rows, channels, pool);
                      });
    }
  }
}

void check_batch_norm(size_t rows, size_t channels, bool constant) {
  const auto x = random_floats(rows * channels, 1, -1, 3), dy = random_floats(rows * channels, 2);
  const auto gamma = random_floats(channels, 3), before = random_floats(x.size() + 2 * channels, 4);
  const Statistics s = statistics_of(x, channels);
  std::vector<double> expected(before.begin(), before.end());
  for (size_t c = 0; c < channels; ++c) {
    const double scale = 1 / std::sqrt(s.variance[c] + 1e-5F);
    double sum = 0, product = 0;
    for (size_t i = c; i < x.size(); i += channels) sum += dy[i], product += dy[i] * (x[i] - s.mean[c]) * scale;
    expected[x.size() + c] += product;
    expected[x.size() + channels + c] += sum;
    for (size_t i = c; i < x.size(); i += channels) {
      const double rest = (sum + (x[i] - s.mean[c]) * scale * product) / static_cast<double>(rows);
      expected[i] = gamma[c] * scale * (dy[i] - (constant ? 0 : rest));
    }
  }
  expect_gradient(expected, before, 1e-4, [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
    kernels.batch_norm({x.data(), dy.data(), gamma.data(), s.mean.data(), s.variance.data(), to, to + x.size(),
                        to + x.size() + channels, rows, channels, 1e-5F, constant, true},
                       pool);
  });
}

TEST(CpuGradients, BatchNormOfAnyShape) {
  for (const bool constant : {false, true}) {
    for (const size_t rows : {2, 7, 900}) {
      for (const size_t channels : {1, 17, 64, 520}) check_batch_norm(rows, channels, constant);
    }
  }
}

// ---------------------------------------------------------------- cross entropy
void check_cross_entropy(size_t rows, size_t classes, bool with_targets) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(classes));
  const auto logits = random_floats(rows * classes, 1, -30, 30), targets = random_floats(rows * classes, 2, 0, 1);
  constexpr uint32_t kIgnored = ~uint32_t{0};
  std::vector<uint32_t> labels(rows);
  for (size_t i = 0; i < rows; ++i) labels[i] = i % 5 == 4 ? kIgnored : static_cast<uint32_t>(i * 7 % classes);
  std::vector<double> losses(rows), slopes(logits.size());
  for (size_t row = 0; row < rows; ++row) {
    const bool ignored = !with_targets && labels[row] == kIgnored;
    const auto target = [&](size_t c) -> double {
      return with_targets ? targets[row * classes + c] : c == labels[row] ? 1 : 0;
    };
    double sum = 0, all = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(logits[row * classes + c]), all += target(c);
    for (size_t c = 0; c < classes && !ignored; ++c) {
      losses[row] += target(c) * (std::log(sum) - logits[row * classes + c]);
      slopes[row * classes + c] = 0.25 * (std::exp(logits[row * classes + c]) / sum * all - target(c));
    }
  }
  const auto problem = [&](float* to) {
    return CrossEntropyProblem<float>{logits.data(),
                                      with_targets ? nullptr : labels.data(),
                                      with_targets ? targets.data() : nullptr,
                                      to,
                                      rows,
                                      classes,
                                      kIgnored};
  };
  expect_gradient(losses, any_values(rows), 2e-6,
                  [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
                    kernels.cross_entropy(problem(to), pool);
                  });
  expect_gradient(slopes, any_values(slopes.size()), 2e-6,
                  [&](const GradientKernels<float>& kernels, float* to, ThreadPool& pool) {
                    kernels.cross_entropy_gradient(problem(nullptr), 0.25F, to, pool);
                  });
}

TEST(CpuGradients, CrossEntropyOfLabelsAndTargets) {
  for (const bool with_targets : {false, true}) {
    for (const size_t rows : {0, 1, 64}) {
      for (const size_t classes : {1, 10, 16, 1003}) check_cross_entropy(rows, classes, with_targets);
    }
  }
}

// ---------------------------------------------------------------- attention
struct Heads {
  size_t sequences, length, q, kv, dim;
  bool causal;
};

// out, and dqkv behind it.
struct AttentionResult {
  std::vector<float> out;
  std::vector<double> dqkv;
};
AttentionResult attend(const Heads& h, const std::vector<float>& qkv, const std::vector<float>& dout, double scale) {
  const size_t stride = (h.q + 2 * h.kv) * h.dim, out_stride = h.q * h.dim;
  AttentionResult result{std::vector<float>(dout.size()), std::vector<double>(qkv.size())};
  std::vector<double> w(h.length), g(h.length);
  for (size_t at = 0; at < h.sequences * h.q * h.length; ++at) {
    const size_t i = at % h.length, head = at / h.length % h.q, base = at / h.length / h.q * h.length;
    const size_t q = (base + i) * stride + head * h.dim, o = (base + i) * out_stride + head * h.dim;
    const size_t kv = h.q * h.dim + head / (h.q / h.kv) * h.dim, values = h.kv * h.dim;
    const size_t seen = h.causal ? i + 1 : h.length;
    double total = 0, mean = 0;
    for (size_t j = 0; j < seen; ++j) {
      const size_t k = (base + j) * stride + kv;
      double score = 0;
      for (size_t d = 0; d < h.dim; ++d) score += double{qkv[q + d]} * qkv[k + d];
      total += w[j] = std::exp(score * scale);
    }
    std::vector<double> out(h.dim);
    for (size_t j = 0; j < seen; ++j) {
      const size_t v = (base + j) * stride + kv + values;
      w[j] /= total;
      g[j] = 0;
      for (size_t d = 0; d < h.dim; ++d) {
        g[j] += double{dout[o + d]} * qkv[v + d];
        result.dqkv[v + d] += w[j] * dout[o + d];
        out[d] += w[j] * qkv[v + d];
      }
      mean += w[j] * g[j];
    }
    for (size_t d = 0; d < h.dim; ++d) result.out[o + d] = static_cast<float>(out[d]);
    for (size_t j = 0; j < seen; ++j) {
      const size_t k = (base + j) * stride + kv;
      const double slope = w[j] * (g[j] - mean) * scale;
      for (size_t d = 0; d < h.dim; ++d) {
        result.dqkv[q + d] += slope * qkv[k + d];
        result.dqkv[k + d] += slope * qkv[q + d];
      }
    }
  }
  return result;
}

TEST(CpuGradients, AttentionWithSharedHeadsAndOddShapes) {
  for (const Heads h : {Heads{1, 1, 1, 1, 1, true}, Heads{2, 7, 2, 1, 5, true}, Heads{3, 64, 4, 2, 16, true},
                        Heads{2, 57, 3, 3, 33, false}, Heads{1, 131, 4, 4, 64, true}, Heads{2, 130, 2, 1, 70, false}}) {
    SCOPED_TRACE("length " + std::to_string(h.length) + ", channels " + std::to_string(h.dim));
    const size_t stride = (h.q + 2 * h.kv) * h.dim;
    const auto qkv = random_floats(h.sequences * h.length * stride, 1),
               dout = random_floats(h.sequences * h.length * h.q * h.dim, 2);
    const AttentionResult right = attend(h, qkv, dout, 0.3F);
    expect_gradient(right.dqkv, any_values(qkv.size()), 3e-5,
                    [&](const GradientKernels<float>& kernels, float* dqkv, ThreadPool& pool) {
                      const AttentionGradient<float> problem{qkv.data(),  right.out.data(), dout.data(), dqkv,
                                                             h.sequences, h.length,         h.q,         h.kv,
                                                             h.dim,       h.causal,         0.3F};
                      std::vector<float> scratch(kernels.attention_scratch(problem, pool.size()));
                      kernels.attention(problem, scratch.data(), pool);
                    });
  }
}

}  // namespace
}  // namespace ballast
