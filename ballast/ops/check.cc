#include "ballast/ops/check.h"

#include <fmt/format.h>

#include "ballast/tensor/blocks.h"

namespace ballast::ops {

namespace {

bool is_plain(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

}  // namespace

Dims Operand::dims() const { return tensor_ != nullptr ? tensor_->dims() : dims_of(*param_); }
DType Operand::dtype() const { return tensor_ != nullptr ? tensor_->dtype() : param_->dtype(); }

std::string named(std::string_view role, const Tensor& tensor) {
  return fmt::format("{} {}", role, tensor.dims().to_string());
}
std::string named(std::string_view role, const Param& param) {
  return fmt::format("{} \"{}\" {}", role, param.name(), param.shape().to_string());
}
std::string named(std::string_view role, const Operand& operand) {
  return operand.tensor() != nullptr ? named(role, *operand.tensor()) : named(role, *operand.param());
}

std::string typed(const Tensor& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.dtype()), tensor.dims().to_string());
}
std::string typed(const Param& param) {
  return fmt::format("{} {}", dtype_name(param.dtype()), param.shape().to_string());
}
std::string typed(const Operand& operand) {
  return operand.tensor() != nullptr ? typed(*operand.tensor()) : typed(*operand.param());
}

Dims dims_of(const Param& param) { return Dims(param.shape().dims()); }

Error does_not_fit(const std::string& a, const std::string& b, const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} does not fit {}: {}", a, b, why));
}
Error refused(const std::string& what, const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, why));
}

Status check_value(std::string_view role, const Tensor& x) {
  if (x.empty()) return make_error(ErrorCode::kInvalidArgument, fmt::format("{} has no value", role));
  return {};
}

Status check_activation(std::string_view role, const Tensor& x) {
  BALLAST_CHECK(check_value(role, x));
  if (x.dtype() == DType::kF32 || x.dtype() == DType::kF64) return {};
  return refused(named(role, x), fmt::format("it is {}, and activations are f32 or f64", dtype_name(x.dtype())));
}

Status check_activation(std::string_view role, const Tensor& x, size_t rank) {
  BALLAST_CHECK(check_activation(role, x));
  if (x.dims().rank() == rank) return {};
  return refused(named(role, x), fmt::format("it must have {} dimension{}", rank, rank == 1 ? "" : "s"));
}

Status check_weight(std::string_view role, const Param& param, size_t rank) {
  if (!param.valid()) return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is no parameter", role));
  if (param.shape().rank() != rank) {
    return refused(named(role, param), fmt::format("it must have {} dimension{}", rank, rank == 1 ? "" : "s"));
  }
  const DType dtype = param.dtype();
  if (is_plain(dtype) || can_dequantize(dtype)) return {};
  if (is_block(dtype)) {
    return refused(named(role, param),
                   fmt::format("it is {}, a type that is carried but not computed with", dtype_name(dtype)));
  }
  return refused(named(role, param),
                 fmt::format("it is {}, and parameters to compute with are f32, f16, bf16 or in blocks such as q4_0",
                             dtype_name(dtype)));
}

Status check_plain_weight(std::string_view role, const Param& param, size_t rank) {
  BALLAST_CHECK(check_weight(role, param, rank));
  if (is_plain(param.dtype())) return {};
  return refused(named(role, param),
                 fmt::format("it is {}, and convolutions compute with f32, f16 or bf16", dtype_name(param.dtype())));
}

Status check_vector(std::string_view role, const Param& param, std::string_view x_role, const Tensor& x) {
  BALLAST_CHECK(check_weight(role, param, 1));
  if (x.dims().rank() == 0) return refused(named(x_role, x), "it must have a dimension");
  if (param.shape()[0] == x.dims().back()) return {};
  return does_not_fit(named(x_role, x), named(role, param),
                      fmt::format("the last dimension of {} must be {}", x_role, param.shape()[0]));
}

Status check_same(std::string_view a_role, const Tensor& a, std::string_view b_role, const Tensor& b) {
  BALLAST_CHECK(check_activation(a_role, a));
  BALLAST_CHECK(check_activation(b_role, b));
  if (a.dtype() != b.dtype()) {
    return does_not_fit(fmt::format("{} {}", a_role, typed(a)), fmt::format("{} {}", b_role, typed(b)),
                        "both must have the same type");
  }
  if (a.dims() == b.dims()) return {};
  return does_not_fit(named(a_role, a), named(b_role, b), "both must have the same shape");
}

}  // namespace ballast::ops
