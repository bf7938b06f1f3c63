// ggml's block types: runs of numbers that share their scales.
//
// A block type is one row of the table in blocks.cc; how each is laid out stands with its decoder (block_decoders.h).
// Decoding is exact: every machine and every compiler gives ggml's bits.
#pragma once

#include <span>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast {

// Whether the values of a block type can be computed; others are carried as they are.
bool can_dequantize(DType dtype);
// `blocks`: whole blocks; `out`: one float per element. Only where can_dequantize.
void dequantize_blocks(DType dtype, ByteSpan blocks, std::span<float> out);

// Whether Ballast can make this type, and making it: whole blocks of finite `values`. The same values give the same
// bytes everywhere. Values too large for the type's scales give blocks that dequantise to infinities or NaN: callers
// look (find_non_finite) and refuse. `weights`: how much a squared error of each value counts, above zero, as many as
// the values; empty: all alike.
bool can_quantize(DType dtype);
void quantize_blocks(DType dtype, std::span<const float> values, MutableByteSpan out,
                     std::span<const float> weights = {});

}  // namespace ballast
