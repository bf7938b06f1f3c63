#include "ballast/tensor/blocks.h"

#include <array>
#include <cstddef>

#include "ballast/tensor/block_decoders.h"
#include "ballast/tensor/block_encoders.h"

namespace ballast {

namespace {

struct BlockType {
  DType dtype;
  BlockDecoder decode;
  BlockEncoder encode;  // null where Ballast does not make the type
};

// Types without a row (those of ggml's searched grids) are carried, not computed.
constexpr std::array kBlockTypes = {
    BlockType{DType::kQ1_0, decode_q1_0, nullptr},     BlockType{DType::kQ2_0, decode_q2_0, nullptr},
    BlockType{DType::kQ4_0, decode_q4_0, encode_q4_0}, BlockType{DType::kQ4_1, decode_q4_1, encode_q4_1},
    BlockType{DType::kQ5_0, decode_q5_0, encode_q5_0}, BlockType{DType::kQ5_1, decode_q5_1, encode_q5_1},
    BlockType{DType::kQ8_0, decode_q8_0, encode_q8_0}, BlockType{DType::kQ8_1, decode_q8_1, nullptr},
    BlockType{DType::kQ2K, decode_q2_k, encode_q2_k},  BlockType{DType::kQ3K, decode_q3_k, encode_q3_k},
    BlockType{DType::kQ4K, decode_q4_k, encode_q4_k},  BlockType{DType::kQ5K, decode_q5_k, encode_q5_k},
    BlockType{DType::kQ6K, decode_q6_k, encode_q6_k},  BlockType{DType::kQ8K, decode_q8_k, nullptr},
    BlockType{DType::kIQ4NL, decode_iq4_nl, nullptr},  BlockType{DType::kIQ4XS, decode_iq4_xs, nullptr},
    BlockType{DType::kTQ1_0, decode_tq1_0, nullptr},   BlockType{DType::kTQ2_0, decode_tq2_0, nullptr},
    BlockType{DType::kMXFP4, decode_mxfp4, nullptr},   BlockType{DType::kNVFP4, decode_nvfp4, nullptr},
};

const BlockType* find_block_type(DType dtype) {
  for (const BlockType& row : kBlockTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

bool can_dequantize(DType dtype) { return find_block_type(dtype) != nullptr; }

void dequantize_blocks(DType dtype, ByteSpan blocks, std::span<float> out) {
  const BlockDecoder decode = find_block_type(dtype)->decode;
  const DTypeInfo& type = dtype_info(dtype);
  const size_t count = blocks.size() / type.block_bytes;
  for (size_t i = 0; i < count; ++i) decode(&blocks[i * type.block_bytes], &out[i * type.block_elements]);
}

bool can_quantize(DType dtype) {
  const BlockType* row = find_block_type(dtype);
  return row != nullptr && row->encode != nullptr;
}

void quantize_blocks(DType dtype, std::span<const float> values, MutableByteSpan out, std::span<const float> weights) {
  const BlockEncoder encode = find_block_type(dtype)->encode;
  const DTypeInfo& type = dtype_info(dtype);
  const size_t count = values.size() / type.block_elements;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * type.block_elements;
    encode(&values[at], weights.empty() ? nullptr : &weights[at], &out[i * type.block_bytes]);
  }
}

}  // namespace ballast
