// Checks and texts that the functionals share. The registry puts the layer and the functional in front of every error.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// x [3, 5]; weight "w" [4, 8]
std::string named(std::string_view role, const Tensor& tensor);
std::string named(std::string_view role, const Param& param);
std::string named(std::string_view role, const Operand& operand);
// f32 [3, 5]
std::string typed(const Tensor& tensor);
std::string typed(const Param& param);
std::string typed(const Operand& operand);

// The dimensions of a parameter, of which checks have made sure that they are few.
Dims dims_of(const Param& param);

// "<a> does not fit <b>: <why>"
Error does_not_fit(const std::string& a, const std::string& b, const std::string& why);
// "<what>: <why>"
Error refused(const std::string& what, const std::string& why);

// Has a value, of the given rank where one is given.
Status check_value(std::string_view role, const Tensor& x);
// Has a value that kernels compute with: f32 or f64.
Status check_activation(std::string_view role, const Tensor& x);
Status check_activation(std::string_view role, const Tensor& x, size_t rank);
// Is a parameter that kernels compute with: f32, f16, bf16, or in blocks that can be dequantised.
Status check_weight(std::string_view role, const Param& param, size_t rank);
// The same without blocks.
Status check_plain_weight(std::string_view role, const Param& param, size_t rank);
// One value for each element of the last dimension of x.
Status check_vector(std::string_view role, const Param& param, std::string_view x_role, const Tensor& x);
Status check_same(std::string_view a_role, const Tensor& a, std::string_view b_role, const Tensor& b);

}  // namespace ballast::ops
