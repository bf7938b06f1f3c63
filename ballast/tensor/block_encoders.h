// Numbers -> one block of a type: what the rows of the table in blocks.cc point at.
//
// The types of 32 elements get ggml's own bytes, except in blocks whose scale vanishes in half precision. The others
// are searched for with the squared error as the only measure.
#pragma once

#include <cstddef>

namespace ballast {

using BlockEncoder = void (*)(const float* values, std::byte* block);

void encode_q4_0(const float* values, std::byte* block);
void encode_q4_1(const float* values, std::byte* block);
void encode_q5_0(const float* values, std::byte* block);
void encode_q5_1(const float* values, std::byte* block);
void encode_q8_0(const float* values, std::byte* block);
void encode_q4_k(const float* values, std::byte* block);
void encode_q5_k(const float* values, std::byte* block);
void encode_q6_k(const float* values, std::byte* block);

}  // namespace ballast
