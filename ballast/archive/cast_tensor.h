// A tensor of a plan given another element type, lazily.
#pragma once

#include <functional>

#include "ballast/archive/write.h"
#include "ballast/tensor/cast.h"

namespace ballast {

// What a cast did to a tensor, told each time it was drawn to its end; possibly from several threads.
using CastDone = std::function<void(const CastReport&)>;

// Casts tensor `index` when it is drawn, a piece at a time. It keeps its name, shape and ids, and loses its stored
// form. kUnsupported where cast_elements does not know the pair.
Status cast_tensor(WritePlan& plan, size_t index, DType to, CastDone done = {});

}  // namespace ballast
