// What tests of the backend `cpu` share: random numbers, weights of every type, levels, threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ballast/backends/cpu/cpu.h"
#include "ballast/base/dtype.h"
#include "ballast/tensor/small_float.h"
#include "tests/support/same_bits.h"

namespace ballast {

inline std::vector<float> random_floats(size_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

// A weight in memory, one byte off every alignment, and the floats that it means.
class TestWeight {
 public:
  TestWeight(std::vector<float> values, DType dtype) : values_(std::move(values)), dtype_(dtype) {
    const size_t width = dtype == DType::kF32 ? 4 : 2;
    bytes_.resize(values_.size() * width + 1);
    for (size_t i = 0; i < values_.size(); ++i) {
      std::byte* to = bytes_.data() + 1 + i * width;
      if (dtype == DType::kF16) put<F16>(values_[i], to);
      else if (dtype == DType::kBF16) put<BF16>(values_[i], to);
      else std::memcpy(to, &values_[i], 4);
    }
  }

  WeightView view(size_t first_element = 0) const {
    return {bytes_.data() + 1 + first_element * (dtype_ == DType::kF32 ? 4 : 2), dtype_};
  }
  const std::vector<float>& values() const { return values_; }

 private:
  template <typename Format>
  static void put(float& value, std::byte* to) {
    const auto bits = Format::encode(value);
    value = Format::decode(bits);
    std::memcpy(to, &bits, sizeof(bits));
  }

  std::vector<float> values_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// Runs `body` on every level of this machine.
inline void for_each_level(const std::function<void(const KernelTable<float>& kernels)>& body) {
  for (const std::string_view level : cpu_levels()) {
    SCOPED_TRACE(std::string("level ") + std::string(level));
    ASSERT_TRUE(use_cpu_level(level));
    body(kCpuBackend.f32);
    use_cpu_level("");
  }
}

using testing::same_bits;

// Runs `compute` with 1, 2 and 7 threads and gives the result of 1; the others must be the same to the bit.
inline std::vector<float> same_on_threads(const std::function<std::vector<float>(ThreadPool& pool)>& compute) {
  ThreadPool one(1), two(2), seven(7);
  std::vector<float> first = compute(one);
  for (ThreadPool* pool : {&two, &seven}) {
    const std::vector<float> other = compute(*pool);
    EXPECT_TRUE(same_bits(first, other)) << pool->size() << " threads";
  }
  return first;
}

inline void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, double relative,
                         double absolute) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double distance = std::abs(actual[i] - expected[i]);
    ASSERT_LE(distance, absolute + relative * std::abs(expected[i]))
        << "element " << i << ": " << actual[i] << " for " << expected[i];
  }
}

inline double activate(Activation activation, double x) {
  constexpr double kPi = 3.14159265358979323846;
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kRelu6: return std::min(std::max(x, 0.0), 6.0);
    case Activation::kGeluErf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
  }
  return x;
}

using GradientCompute = std::function<void(const GradientKernels<float>& kernels, float* out, ThreadPool& pool)>;

// On every level, with any number of threads; `out` begins as `before`.
inline void expect_gradient(const std::vector<double>& expected, const std::vector<float>& before, double tolerance,
                            const GradientCompute& compute) {
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto out = same_on_threads([&](ThreadPool& pool) {
      std::vector<float> result = before;
      compute(kernels.gradients, result.data(), pool);
      return result;
    });
    expect_close(out, expected, tolerance, tolerance);
  });
}
// What a kernel that writes must not leave.
inline std::vector<float> any_values(size_t count) { return std::vector<float>(count, 12345); }

}  // namespace ballast
