// Arguments of the matrix products, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct MatmulArgs {
  static constexpr std::string_view kFunctional = "matmul";
  const Tensor& a;
  const Operand& b;
  WeightLayout layout = WeightLayout::kInOut;  // of b where it is a parameter: kOutIn is [n, k]

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct LinearArgs {
  static constexpr std::string_view kFunctional = "linear";
  const Tensor& x;
  const Param& weight;
  const LinearOptions& options;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// Whether ops::linear takes itself apart while there is a tape: what comes behind the product is then recorded by
// itself. ReLU can be told from the output.
bool is_recorded_in_steps(const LinearOptions& options);

// What the built-in linear does, for functionals that need it on their way.
Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options);

}  // namespace ballast::ops
