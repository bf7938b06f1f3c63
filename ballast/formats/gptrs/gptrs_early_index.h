// The index of one day's builds of gpt.rs (27 December 2025), which wrote version 2 with 64-bit counts.
#pragma once

#include "ballast/formats/gptrs/gptrs_index.h"

namespace ballast {

// kUnsupported where the index in [begin, end) has that layout. Read as the final one its first name has length 0,
// which a sound file may have too; so the first entry is read the other way.
Status refuse_early_gptrs_index(const ByteSource& source, const GptrsKind& kind, uint64_t begin, uint64_t end);

}  // namespace ballast
