// Arguments of the mixture of experts, for those who add implementations.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct ExpertGatesArgs {
  static constexpr std::string_view kFunctional = "expert_gates";
  const Tensor& scores;
  uint64_t used;
  bool normalise;

  Status check() const;
  std::string text() const;
};

struct ExpertMlpArgs {
  static constexpr std::string_view kFunctional = "expert_mlp";
  const Tensor& x;
  const Tensor& gates;
  std::span<const Expert> experts;
  Activation activation;

  Status check() const;
  std::string text() const;
};

}  // namespace ballast::ops
