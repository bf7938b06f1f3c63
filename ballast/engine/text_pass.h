// One pass over some rows of several texts.
#pragma once

#include <span>

#include "ballast/device/host_values.h"
#include "ballast/engine/engine_text.h"

namespace ballast {

// Of a pass, one row for each chunk that reaches the end of its text.
struct TextChunk::Logits {
  Tensor tensor;
  HostValues<float> values;

  std::span<const float> row(size_t index) const {
    const size_t width = tensor.dims().back();
    return values.span().subspan(index * width, width);
  }
};

// Gives each chunk its logits or its error. Their pages are reserved, and not appended to.
void run_chunks(const CausalLm& model, Context& context, std::span<TextChunk> chunks);

}  // namespace ballast
