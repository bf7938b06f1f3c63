// Arguments of the rotary embeddings, for those who add implementations.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// What llama3's scaling divides the frequency of channel `i` by: in single precision, as files keep it.
float llama3_divisor(const RopeConfig& config, uint64_t i);
// What cosines and sines are multiplied by; a number of single precision, as files keep it.
double rope_magnitude(const RopeScaling& scaling);
// The same for tables of this type: not rounded for those of f64.
double rope_magnitude(const RopeScaling& scaling, DType dtype);
// By what angle channel `i` turns from one position to the next, in tables of this type.
// `text_length`: see whole_length.
double rope_frequency(const RopeConfig& config, uint64_t i, uint64_t text_length, DType dtype);

// Of the text that a stretch belongs to.
inline uint64_t whole_length(const RopeStretch& stretch) {
  return std::max(stretch.text_length, stretch.first_position + stretch.positions);
}

struct ApplyRopeArgs {
  static constexpr std::string_view kFunctional = "apply_rope";
  const Tensor& x;
  const RopeTables& tables;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ApplyRopeQkvPackedArgs {
  static constexpr std::string_view kFunctional = "apply_rope_qkv_packed";
  const AttentionConfig& config;
  const Tensor& qkv;
  const RopeTables& tables;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
