// Arguments of embedding_lookup, for those who add implementations.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct EmbeddingLookupArgs {
  static constexpr std::string_view kFunctional = "embedding_lookup";
  const Param& weight;
  std::span<const uint32_t> indices;
  DType dtype;  // of the output

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
