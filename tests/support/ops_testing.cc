#include "tests/support/ops_testing.h"

#include <gtest/gtest.h>

#include <random>

#include "ballast/device/host_values.h"
#include "ballast/tensor/cast.h"
#include "examples/emulated_backend.h"
#include "tests/support/backends_to_test.h"

namespace ballast::testing {

std::vector<const Backend*> tested_backends() {
  std::vector<const Backend*> backends = backends_to_test();
  backends.push_back(&emulated::backend());
  return backends;
}

std::shared_ptr<Queue> queue_of(const Backend& backend) {
  if (backend.open_device == nullptr) return host_queue();
  const auto device = backend.open_device();
  EXPECT_TRUE(device) << device.error().message;
  auto queue = (*device)->open_queue();
  EXPECT_TRUE(queue) << queue.error().message;
  return *std::move(queue);
}

Tensor tensor_of(Workspace& workspace, const std::vector<double>& values, const Dims& dims, DType dtype) {
  EXPECT_EQ(values.size(), dims.count()) << dims.to_string();
  std::vector<float> floats(values.size());
  for (size_t i = 0; i < values.size(); ++i) floats[i] = static_cast<float>(values[i]);
  const ByteSpan bytes =
      dtype == DType::kF64 ? ByteSpan(std::as_bytes(std::span(values))) : ByteSpan(std::as_bytes(std::span(floats)));
  auto made = workspace.from_bytes(bytes, dims, dtype);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

Tensor Lab::tensor(const std::vector<double>& values, const Dims& dims, DType dtype) {
  return tensor_of(workspace, values, dims, dtype);
}

std::vector<double> values_of(const Tensor& tensor) {
  auto values = doubles_of(tensor);
  EXPECT_TRUE(values) << values.error().message;
  return values ? *std::move(values) : std::vector<double>();
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
