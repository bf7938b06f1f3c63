// Arguments of the rotary embeddings, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct ApplyRopeArgs {
  static constexpr std::string_view kFunctional = "apply_rope";
  const Tensor& x;
  const RopeTables& tables;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ApplyRopeQkvPackedArgs {
  static constexpr std::string_view kFunctional = "apply_rope_qkv_packed";
  const AttentionConfig& config;
  const Tensor& qkv;
  const RopeTables& tables;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
