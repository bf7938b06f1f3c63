// Mixed precision for a while.
#pragma once

#include "ballast/ops/context.h"

namespace ballast {

// Products round their operands to `dtype` (bf16) while this lives. Parameters stay what they are, so what is saved
// inside is what would be saved outside.
class Autocast {
 public:
  explicit Autocast(Context& context, DType dtype = DType::kBF16, bool enabled = true)
      : context_(context), before_(context.product_dtype) {
    if (enabled) context_.product_dtype = dtype;
  }
  ~Autocast() { context_.product_dtype = before_; }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Context& context_;
  DType before_;
};

}  // namespace ballast
