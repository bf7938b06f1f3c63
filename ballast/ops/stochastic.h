// Arguments of dropout, for those who add implementations.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct DropoutArgs {
  static constexpr std::string_view kFunctional = "dropout";
  const Tensor& x;
  float p;
  bool training;
  std::optional<uint64_t> key;  // of the random numbers; there where elements are dropped

  bool drops() const { return training && p > 0; }

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
