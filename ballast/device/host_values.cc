#include "ballast/device/host_values.h"

namespace ballast {

namespace {

template <typename To>
Result<std::vector<To>> values_as(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF64) {
    BALLAST_TRY(const auto values, HostValues<double>::of(tensor));
    return std::vector<To>(values.begin(), values.end());
  }
  BALLAST_TRY(const auto values, HostValues<float>::of(tensor));
  return std::vector<To>(values.begin(), values.end());
}

}  // namespace

Result<std::vector<float>> floats_of(const Tensor& tensor) { return values_as<float>(tensor); }
Result<std::vector<double>> doubles_of(const Tensor& tensor) { return values_as<double>(tensor); }

Result<double> number_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF64) {
    BALLAST_TRY(const auto values, HostValues<double>::of(tensor));
    return values[0];
  }
  BALLAST_TRY(const auto values, HostValues<float>::of(tensor));
  return static_cast<double>(values[0]);
}

}  // namespace ballast
