// Numbers -> one block of a type: what the rows of the table in blocks.cc point at.
//
// Without weights the types of 32 elements get ggml's own bytes, except in blocks whose scale vanishes in half
// precision. Everything else is searched for with the (weighted) squared error as the only measure.
#pragma once

#include <cstddef>

namespace ballast {

// `weights`: how much a squared error of each value counts, above zero; null: all alike.
using BlockEncoder = void (*)(const float* values, const float* weights, std::byte* block);

void encode_q4_0(const float* values, const float* weights, std::byte* block);
void encode_q4_1(const float* values, const float* weights, std::byte* block);
void encode_q5_0(const float* values, const float* weights, std::byte* block);
void encode_q5_1(const float* values, const float* weights, std::byte* block);
void encode_q8_0(const float* values, const float* weights, std::byte* block);
void encode_q2_k(const float* values, const float* weights, std::byte* block);
void encode_q3_k(const float* values, const float* weights, std::byte* block);
void encode_q4_k(const float* values, const float* weights, std::byte* block);
void encode_q5_k(const float* values, const float* weights, std::byte* block);
void encode_q6_k(const float* values, const float* weights, std::byte* block);

}  // namespace ballast
