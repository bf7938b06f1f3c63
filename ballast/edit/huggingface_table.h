// Which parameter of a gpt.rs model is which tensor of a Hugging Face or torchvision file. Data only; huggingface.cc
// carries it out, in both directions.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "ballast/base/dtype.h"

namespace ballast {

enum class NameChange : uint8_t {
  kCopy,       // the same bytes
  kTranspose,  // [in, out] in gpt.rs, [out, in] over there
  kJoin,       // three matrices over there, stacked and transposed in gpt.rs; the second and third are equally tall
  kHead,       // as kTranspose; left out over there where it equals the transposed embedding
  kLinear,     // [out, in] on both sides, though gpt.rs also takes [in, out]
  kFold,       // a convolution and its batch norm over there, one convolution with a bias in gpt.rs
};

struct NameRule {
  std::string_view gptrs;
  // As many as the change needs. '@' stands for the prefix of the file. For kFold: the convolution and the batch norm,
  // without ".weight", ".bias" and so on.
  std::array<std::string_view, 3> huggingface;
  NameChange change = NameChange::kCopy;
  // kJoin: the output projection, whose rows are as many as the first matrix has. kHead: the embedding. kLinear: the
  // bias.
  std::string_view beside = {};
  bool optional = false;
};

// How a file spells what all its names begin with.
struct NameStyle {
  std::string_view prefix;
  std::string_view head_prefix;
};

struct NamedModel {
  std::string_view name;                      // gpt.rs's "kind"
  std::string_view described;                 // for people
  std::span<const NameStyle> styles;          // the first is the one that is written
  std::span<const NameRule> rules;            // the first that matches counts
  std::span<const std::string_view> ignored;  // over there: buffers that hold no weights
  uint32_t first_block = 0;                   // number from which blocks.{} counts without gaps, where there are any
  size_t tensors = 0;                         // on the side of gpt.rs, where the kind fixes it
};

std::span<const NamedModel> all_named_models();
const NamedModel* find_named_model(std::string_view name);

// What nn.BatchNorm2d adds to the variance in both torchvision models.
inline constexpr float kBatchNormEpsilon = 1e-5F;

}  // namespace ballast
