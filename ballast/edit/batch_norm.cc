#include "ballast/edit/batch_norm.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <memory>

#include "ballast/edit/huggingface_table.h"
#include "ballast/edit/tensor_stream.h"

namespace ballast {

namespace {

// In f32, where the sum with kBatchNormEpsilon rounds to 1.
constexpr float kIdentityVariance = 1.0F - kBatchNormEpsilon;
static_assert(kIdentityVariance + kBatchNormEpsilon == 1.0F);

Result<std::vector<float>> draw_values(const PlannedTensor& tensor) {
  BALLAST_TRY(const ByteVector bytes, draw_all(tensor.provider, tensor.info.byte_size));
  std::vector<float> values(bytes.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(load_le<uint32_t>(&bytes[i * sizeof(float)]));
  }
  return values;
}

// Each operation rounds to f32 on its own, as tensor operations do: this layer is compiled without contraction.
Result<std::vector<float>> channel_factors(const BatchNorm& norm) {
  BALLAST_TRY(std::vector<float> factors, draw_values(norm.scale));
  BALLAST_TRY(const std::vector<float> variances, draw_values(norm.variance));
  for (size_t i = 0; i < factors.size(); ++i) {
    const float inverse = 1.0F / std::sqrt(variances[i] + kBatchNormEpsilon);
    factors[i] *= inverse;
  }
  return factors;
}

TensorProvider scaled_weight(const PlannedTensor& weight, uint64_t channel_values, const BatchNorm& norm) {
  return changed_values(weight.provider, [norm, channel_values]() -> Result<ChangeValue> {
    BALLAST_TRY(std::vector<float> factors, channel_factors(norm));
    return ChangeValue([factors = std::move(factors), channel_values](float value, uint64_t position) {
      const float factor = factors[position / channel_values];
      return factor == 1.0F ? value : value * factor;
    });
  });
}

// Runs over the shift's values.
TensorProvider folded_bias(const std::optional<PlannedTensor>& bias, const BatchNorm& norm) {
  return changed_values(norm.shift.provider, [bias, norm]() -> Result<ChangeValue> {
    BALLAST_TRY(std::vector<float> factors, channel_factors(norm));
    BALLAST_TRY(std::vector<float> means, draw_values(norm.mean));
    std::vector<float> biases(means.size(), 0.0F);
    if (bias) BALLAST_CHECK(assign(biases, draw_values(*bias)));
    return ChangeValue([factors = std::move(factors), means = std::move(means), biases = std::move(biases)](
                           float shift, uint64_t channel) {
      const float centred = biases[channel] - means[channel];
      if (centred == 0.0F && factors[channel] == 1.0F) return shift;  // 0 + -0 would lose the sign
      const float scaled = centred * factors[channel];
      return scaled + shift;
    });
  });
}

Status check_channels(const PlannedTensor& tensor, uint64_t channels) {
  const bool fits = tensor.info.dtype == DType::kF32 && tensor.info.shape == Shape{channels};
  if (fits) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("tensor \"{}\" is {} {}; a batch norm is folded where it is f32 [{}], as long as its "
                  "convolution has channels",
                  tensor.info.name, dtype_name(tensor.info.dtype), tensor.info.shape.to_string(), channels));
}

PlannedTensor filled(std::string name, uint64_t count, float value) {
  PlannedTensor tensor;
  tensor.info.name = std::move(name);
  tensor.info.shape = Shape{count};
  tensor.info.byte_size = count * sizeof(float);
  tensor.provider = [count, value](ByteSink& sink) -> Status {
    ByteVector bytes(static_cast<size_t>(count) * sizeof(float));
    for (size_t i = 0; i < count; ++i) store_le(&bytes[i * sizeof(float)], std::bit_cast<uint32_t>(value));
    return sink.write(bytes);
  };
  return tensor;
}

}  // namespace

Result<FoldedConvolution> fold_batch_norm(const PlannedTensor& weight, const std::optional<PlannedTensor>& bias,
                                          const BatchNorm& norm) {
  const Shape& shape = weight.info.shape;
  const auto values = shape.element_count();
  if (weight.info.dtype != DType::kF32 || shape.rank() != 4 || !values || *values == 0) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("tensor \"{}\" is {} {}; a batch norm is folded into an f32 weight of four dimensions",
                    weight.info.name, dtype_name(weight.info.dtype), shape.to_string()));
  }
  for (const PlannedTensor* part : {&norm.scale, &norm.shift, &norm.mean, &norm.variance}) {
    BALLAST_CHECK(check_channels(*part, shape[0]));
  }
  if (bias) BALLAST_CHECK(check_channels(*bias, shape[0]));
  FoldedConvolution folded{weight, norm.shift};
  folded.weight.provider = scaled_weight(weight, *values / shape[0], norm);
  folded.bias.provider = folded_bias(bias, norm);
  return folded;
}

std::vector<PlannedTensor> make_identity_norm(const std::string& name, const PlannedTensor& bias) {
  const uint64_t channels = bias.info.shape[0];
  PlannedTensor shift = bias;
  shift.info.name = name + ".bias";
  PlannedTensor count;
  count.info.name = name + ".num_batches_tracked";
  count.info.dtype = DType::kI64;
  count.info.byte_size = sizeof(int64_t);
  count.provider = [](ByteSink& sink) { return sink.write_zeros(sizeof(int64_t)); };
  return {filled(name + ".weight", channels, 1.0F), std::move(shift), filled(name + ".running_mean", channels, 0.0F),
          filled(name + ".running_var", channels, kIdentityVariance), std::move(count)};
}

}  // namespace ballast
