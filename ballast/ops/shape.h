// Arguments of the functionals that move elements, for those who add implementations.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct ReshapeArgs {
  static constexpr std::string_view kFunctional = "reshape";
  const Tensor& x;
  const Dims& dims;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct TransposeArgs {
  static constexpr std::string_view kFunctional = "transpose";
  const Tensor& x;
  std::span<const size_t> permutation;  // output axis i is axis permutation[i] of x

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct SliceAlongAxisArgs {
  static constexpr std::string_view kFunctional = "slice_along_axis";
  const Tensor& x;
  size_t axis;
  uint64_t begin;
  uint64_t count;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ConcatAlongAxisArgs {
  static constexpr std::string_view kFunctional = "concat_along_axis";
  std::span<const Tensor> parts;
  size_t axis;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
