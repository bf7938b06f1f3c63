#include "ballast/tensor/blocks.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ballast/tensor/block_decoders.h"
#include "ballast/tensor/block_encoders.h"

namespace ballast {

namespace {

struct DecodedType {
  DType dtype;
  BlockDecoder decode;
};

// Types without a row (those of ggml's searched grids) are carried, not computed.
constexpr std::array kDecoded = {
    DecodedType{DType::kQ1_0, decode_q1_0},    DecodedType{DType::kQ2_0, decode_q2_0},
    DecodedType{DType::kQ4_0, decode_q4_0},    DecodedType{DType::kQ4_1, decode_q4_1},
    DecodedType{DType::kQ5_0, decode_q5_0},    DecodedType{DType::kQ5_1, decode_q5_1},
    DecodedType{DType::kQ8_0, decode_q8_0},    DecodedType{DType::kQ8_1, decode_q8_1},
    DecodedType{DType::kQ2K, decode_q2_k},     DecodedType{DType::kQ3K, decode_q3_k},
    DecodedType{DType::kQ4K, decode_q4_k},     DecodedType{DType::kQ5K, decode_q5_k},
    DecodedType{DType::kQ6K, decode_q6_k},     DecodedType{DType::kQ8K, decode_q8_k},
    DecodedType{DType::kIQ4NL, decode_iq4_nl}, DecodedType{DType::kIQ4XS, decode_iq4_xs},
    DecodedType{DType::kTQ1_0, decode_tq1_0},  DecodedType{DType::kTQ2_0, decode_tq2_0},
    DecodedType{DType::kMXFP4, decode_mxfp4},  DecodedType{DType::kNVFP4, decode_nvfp4},
};

struct EncodedType {
  DType dtype;
  BlockEncoder encode;
};

constexpr std::array kEncoded = {
    EncodedType{DType::kQ4_0, encode_q4_0}, EncodedType{DType::kQ4_1, encode_q4_1},
    EncodedType{DType::kQ5_0, encode_q5_0}, EncodedType{DType::kQ5_1, encode_q5_1},
    EncodedType{DType::kQ8_0, encode_q8_0}, EncodedType{DType::kQ2K, encode_q2_k},
    EncodedType{DType::kQ3K, encode_q3_k},  EncodedType{DType::kQ4K, encode_q4_k},
    EncodedType{DType::kQ5K, encode_q5_k},  EncodedType{DType::kQ6K, encode_q6_k},
};

// Their types alone: a program that only asks for them links no encoder.
constexpr auto kQuantizable = [] {
  std::array<DType, kEncoded.size()> types{};
  std::ranges::transform(kEncoded, types.begin(), &EncodedType::dtype);
  return types;
}();

}  // namespace

bool can_dequantize(DType dtype) { return std::ranges::find(kDecoded, dtype, &DecodedType::dtype) != kDecoded.end(); }

void dequantize_blocks(DType dtype, ByteSpan blocks, std::span<float> out) {
  const BlockDecoder decode = std::ranges::find(kDecoded, dtype, &DecodedType::dtype)->decode;
  const DTypeInfo& type = dtype_info(dtype);
  const size_t count = blocks.size() / type.block_bytes;
  for (size_t i = 0; i < count; ++i) decode(&blocks[i * type.block_bytes], &out[i * type.block_elements]);
}

bool can_quantize(DType dtype) { return std::ranges::find(kQuantizable, dtype) != kQuantizable.end(); }

void quantize_blocks(DType dtype, std::span<const float> values, MutableByteSpan out, std::span<const float> weights) {
  const BlockEncoder encode = std::ranges::find(kEncoded, dtype, &EncodedType::dtype)->encode;
  const DTypeInfo& type = dtype_info(dtype);
  const size_t count = values.size() / type.block_elements;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * type.block_elements;
    encode(&values[at], weights.empty() ? nullptr : &weights[at], &out[i * type.block_bytes]);
  }
}

}  // namespace ballast
