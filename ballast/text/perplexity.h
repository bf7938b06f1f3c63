// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <span>

#include "ballast/base/progress.h"
#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast {

class CausalLm;  // models/model.h
class Context;   // ops/context.h

struct PerplexityOptions {
  uint64_t context = 0;  // tokens in a window; 0: the model's context, but at most kLongestDefault
  uint64_t stride = 0;   // from one window to the next; 0: half a window
  Progress progress{};   // counts tokens

  static constexpr uint64_t kLongestDefault = 2048;
};

struct Perplexity {
  uint64_t tokens = 0;  // of the text
  uint64_t scored = 0;  // predicted: each once
  uint64_t windows = 0;
  uint64_t context = 0;  // as it was measured
  uint64_t stride = 0;
  double total = 0;           // sum of -log p, in nats
  double sum_of_squares = 0;  // of -log p

  double mean() const;            // nats per token
  double value() const;           // exp(mean)
  double standard_error() const;  // of value(), as far as tokens are independent
};

// Windows of `context` tokens begin at 0, stride, 2 * stride, ... up to the first that reaches the end of the text.
// Each predicts the tokens that no window before it did, from all tokens of the window in front of them; the first
// token of a window is never predicted, so with stride == context one token per window is left out. That is what
// transformers' guide to perplexity computes. Bits depend neither on threads nor on how a window is cut into pieces.
// kInvalidArgument: fewer than two tokens, a stride of more than the context, a context longer than the model's.
Result<Perplexity> measure_perplexity(const CausalLm& model, Context& context, std::span<const TokenId> tokens,
                                      const PerplexityOptions& options = {});

}  // namespace ballast
