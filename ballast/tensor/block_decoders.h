// One block of a type -> its numbers: what the rows of the table in blocks.cc point at.
//
// Every product in these formulas is exact in f32, so at most one rounding is left (the last sum, or the f32 scale of
// q8_k), and the order of operations or a fused multiply-add cannot change a bit.
#pragma once

#include <cstddef>

namespace ballast {

using BlockDecoder = void (*)(const std::byte* block, float* out);

void decode_q1_0(const std::byte* block, float* out);
void decode_q2_0(const std::byte* block, float* out);
void decode_q4_0(const std::byte* block, float* out);
void decode_q4_1(const std::byte* block, float* out);
void decode_q5_0(const std::byte* block, float* out);
void decode_q5_1(const std::byte* block, float* out);
void decode_q8_0(const std::byte* block, float* out);
void decode_q8_1(const std::byte* block, float* out);
void decode_q2_k(const std::byte* block, float* out);
void decode_q3_k(const std::byte* block, float* out);
void decode_q4_k(const std::byte* block, float* out);
void decode_q5_k(const std::byte* block, float* out);
void decode_q6_k(const std::byte* block, float* out);
void decode_q8_k(const std::byte* block, float* out);
void decode_iq4_nl(const std::byte* block, float* out);
void decode_iq4_xs(const std::byte* block, float* out);
void decode_tq1_0(const std::byte* block, float* out);
void decode_tq2_0(const std::byte* block, float* out);
void decode_mxfp4(const std::byte* block, float* out);
void decode_nvfp4(const std::byte* block, float* out);

}  // namespace ballast
