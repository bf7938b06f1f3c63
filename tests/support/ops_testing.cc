#include "tests/support/ops_testing.h"

#include <gtest/gtest.h>

#include <random>

#include "ballast/device/host_access.h"
#include "ballast/tensor/cast.h"

namespace ballast::testing {

Tensor Lab::tensor(const std::vector<double>& values, const Dims& dims, DType dtype) {
  EXPECT_EQ(values.size(), dims.count()) << dims.to_string();
  auto made = workspace.make(dims, dtype);
  EXPECT_TRUE(made) << made.error().message;
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF64) host_data<double>(*made)[i] = values[i];
    else host_data<float>(*made)[i] = static_cast<float>(values[i]);
  }
  return *std::move(made);
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values(tensor.count());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.dtype() == DType::kF64 ? host_data<const double>(tensor)[i] : host_data<const float>(tensor)[i];
  }
  return values;
}

MemoryParam make_param(const std::string& name, DType dtype, const Shape& shape, const std::vector<double>& values) {
  MemoryParam param;
  param.info.name = name;
  param.info.dtype = dtype;
  param.info.shape = shape;
  param.info.byte_size = packed_size(shape, dtype).value();
  param.payload.resize(param.info.byte_size);
  const auto cast = cast_elements(DType::kF64, std::as_bytes(std::span(values)), dtype, param.payload);
  EXPECT_TRUE(cast) << cast.error().message;
  return param;
}

std::unique_ptr<ParamStore> make_store(std::vector<MemoryParam> params, const ResidencyOptions& options) {
  auto store = ParamStore::open(make_param_source(std::move(params)), options);
  EXPECT_TRUE(store) << store.error().message;
  return *std::move(store);
}

Param param_of(ParamStore& store, const std::string& name) {
  const auto param = store.get(name);
  EXPECT_TRUE(param) << param.error().message;
  return *param;
}

std::vector<double> random_values(uint64_t seed, size_t count) {
  std::mt19937_64 bits(seed * 7919 + count);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(bits() >> 40) / (1 << 23) - 1;
  return values;
}

}  // namespace ballast::testing
