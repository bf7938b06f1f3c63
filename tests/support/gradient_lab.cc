#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ballast/device/host_access.h"
#include "tests/support/gradient_cases.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

std::vector<double> spread_values(uint64_t seed, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));  // NOLINT(cert-msc51-cpp): the same every time
  const double offset = 0.17 + 0.29 * static_cast<double>(seed % 3);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double value = 2 * (static_cast<double>(order[i]) + offset) / static_cast<double>(count) - 1;
    values[i] = std::round(value * (1 << 20)) / (1 << 20);
  }
  return values;
}

GradientLab::GradientLab(const ConformanceCase& test, const Backend& backend, DType dtype, unsigned threads)
    : lab(backend, threads),
      param_gradients(lab.workspace),
      tape(param_gradients),
      test_(test),
      values_(std::make_shared<TrainedParams>()),
      trial_{lab.context, dtype, {}, {}},
      trained_(test.params.size() - test.constants) {
  for (size_t i = 0; i < test.params.size(); ++i) {
    const auto index = values_->add(make_info("p" + std::to_string(i), DType::kF32, test.params[i]));
    EXPECT_TRUE(index) << index.error().message;
    std::ranges::copy(spread_values(50 + i, values_->values<float>(*index).size()),
                      values_->values<float>(*index).begin());
  }
  auto opened = ParamStore::open(values_);
  EXPECT_TRUE(opened) << opened.error().message;
  store_ = *std::move(opened);
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    trial_.x.push_back(lab.tensor(spread_values(i, test.inputs[i].count()), test.inputs[i], dtype));
  }
  for (size_t i = 0; i < test.params.size(); ++i) {
    trial_.params.push_back(param_of(*store_, "p" + std::to_string(i)));
    if (i < trained_) param_gradients.train(trial_.params.back());
  }
  lab.context.random = &random;
}

Result<Tensor> GradientLab::loss() {
  random.draws = 0;
  BALLAST_TRY(const Tensor y, test_.run(trial_));
  if (weights_.empty()) weights_ = lab.tensor(random_values(7, y.count()), y.dims(), y.dtype());
  BALLAST_TRY(const Tensor weighted, ops::binary(lab.context, BinaryOp::kMul, y, weights_));
  return ops::sum_all(lab.context, weighted);
}

Result<std::vector<std::vector<double>>> GradientLab::gradients(double seed) {
  tape.reset();
  param_gradients.clear();
  lab.context.tape = &tape;
  for (const Tensor& x : trial_.x) tape.watch(x);
  Result<Tensor> value = loss();
  lab.context.tape = nullptr;
  if (!value) return std::move(value).error();
  BALLAST_CHECK(tape.backward(lab.context, *value, seed));
  std::vector<std::vector<double>> all;
  for (const Tensor& x : trial_.x) {
    const Tensor* gradient = tape.gradient(x);
    all.push_back(gradient != nullptr ? values_of(*gradient) : std::vector<double>(x.count()));
  }
  for (size_t i = 0; i < trained_; ++i) {
    const Param& param = trial_.params[i];
    const Tensor* gradient = param_gradients.find(param);
    all.push_back(gradient != nullptr ? values_of(*gradient)
                                      : std::vector<double>(param.shape().element_count().value()));
  }
  return all;
}

size_t GradientLab::size(size_t variable) const {
  if (variable < trial_.x.size()) return trial_.x[variable].count();
  return trial_.params[variable - trial_.x.size()].shape().element_count().value();
}

void GradientLab::move(size_t variable, size_t element, double by) {
  if (variable >= trial_.x.size()) {
    values_->values<float>(variable - trial_.x.size())[element] += static_cast<float>(by);
    return;
  }
  Tensor& x = trial_.x[variable];
  if (trial_.dtype == DType::kF64) host_data<double>(x)[element] += by;  // only on the reference
  else host_data<float>(x)[element] += static_cast<float>(by);
}

}  // namespace ballast::testing
