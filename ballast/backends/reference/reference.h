// Every functional and routine, slow and obvious: what every other backend is compared with, and shares nothing with.
// In f32 it is also the answer to "what should this be to the bit", in f64 to "what should this be".
#pragma once

#include "ballast/ops/backend.h"

namespace ballast {

extern const Backend kReferenceBackend;

}  // namespace ballast
