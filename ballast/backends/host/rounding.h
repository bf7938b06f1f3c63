// Products whose operands are rounded to bf16 first (Context::product_dtype). What was rounded keeps its type, so that
// sums stay as long as they were.
#pragma once

#include "ballast/backends/host/kernel_table.h"
#include "ballast/ops/context.h"

namespace ballast::host {

// kUnsupported for a type that products cannot round to.
Result<bool> rounds_products(const Context& context);

// x, or a rounded copy of it where products round.
Result<Tensor> product_operand(Context& context, const Tensor& x);
// The same for values elsewhere: `memory` keeps the copy.
template <typename T>
Result<const T*> product_values(Context& context, const T* values, uint64_t count, Tensor& memory);
// The same for elements of a parameter, as bf16.
Result<WeightView> product_weight(Context& context, const WeightView& weight, uint64_t count, Tensor& memory);

}  // namespace ballast::host
