// From logits to the next token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast {

// What a penalty that somebody asks for looks back at, where no model's file says how far: llama.cpp's figure.
inline constexpr uint64_t kUsualRepetitionWindow = 64;
inline constexpr uint64_t kWholeContext = UINT64_MAX;  // transformers looks at everything

struct SamplerOptions {
  double temperature = 1;  // 0: the likeliest token; of equal ones that of the lower id
  uint64_t top_k = 0;      // 0: all. Ties at the edge go to lower ids
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  uint64_t repetition_window = kUsualRepetitionWindow;  // tokens looked back at
  uint64_t seed = 0;
  bool log_probabilities = true;  // they cost an exponential for each token of the vocabulary
};

// kInvalidArgument for an option outside its range, with the range.
Status check_sampler_options(const SamplerOptions& options);

struct SampledToken {
  TokenId id = 0;
  double log_probability = 0;  // under the model, before any of the options; 0 where nobody asked for it
};

// The n-th draw depends on the seed, n and the logits alone: a counter-based generator, so neither threads nor earlier
// logits matter.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  // `past`: prompt and what was generated, for the repetition penalty. NaN logits are kInvalidArgument.
  Result<SampledToken> next(std::span<const float> logits, std::span<const TokenId> past);
  // The `count` likeliest tokens with their log-probabilities, likeliest first.
  static std::vector<SampledToken> likeliest(std::span<const float> logits, size_t count);

 private:
  TokenId choose(std::span<const float> logits, float most, std::span<const TokenId> past);
  void penalise(std::span<const TokenId> past);
  TokenId draw();

  SamplerOptions options_;
  uint64_t draws_ = 0;
  // Kept from step to step, so that a step allocates nothing.
  std::vector<std::pair<float, TokenId>> candidates_;
  std::vector<double> weights_;
  std::vector<uint8_t> penalised_;  // by id; all 0 between steps
};

}  // namespace ballast
