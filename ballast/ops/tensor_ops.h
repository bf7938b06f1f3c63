// Arguments of the elementwise functionals, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct AddBiasArgs {
  static constexpr std::string_view kFunctional = "add_bias";
  const Tensor& x;
  const Operand& bias;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct BinaryArgs {
  static constexpr std::string_view kFunctional = "binary";
  BinaryOp op;
  const Tensor& a;
  const Tensor& b;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct UnaryArgs {
  static constexpr std::string_view kFunctional = "unary";
  UnaryOp op;
  const Tensor& x;
  double parameter;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ClampArgs {
  static constexpr std::string_view kFunctional = "clamp";
  const Tensor& x;
  float low;
  float high;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
