// Arguments of the matrix products, for those who add implementations.
#pragma once

#include <span>
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
  bool is_taken_apart(const Context& context) const;
  Result<Tensor> run_in_steps(Context& context) const;
};

struct LinearPartsArgs {
  static constexpr std::string_view kFunctional = "linear_parts";
  const Tensor& x;
  std::span<const LinearPart> parts;
  const LinearPartsOptions& options;

  Status check() const;
  std::string text() const;
  bool is_taken_apart(const Context& context) const;
  Result<Tensor> run_in_steps(Context& context) const;
};

// Whether ops::linear takes itself apart while there is a tape: what comes behind the product is then recorded by
// itself. ReLU can be told from the output.
bool is_recorded_in_steps(const LinearOptions& options);

// Of a weight, or of some of its rows.
struct MatrixSize {
  uint64_t k, n;
};
MatrixSize size_of(const Param& weight, WeightLayout layout, const RowRange& rows = {});
// What a product that fits gives.
Dims product_dims(const Tensor& x, const Param& weight, WeightLayout layout, const RowRange& rows = {});

}  // namespace ballast::ops
