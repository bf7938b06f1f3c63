#include "ballast/text/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/device/host_values.h"
#include "ballast/engine/forward_past.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

// Logits of so many rows are in memory at a time: with a vocabulary of 256 thousand, 128 MiB.
constexpr size_t kScoredPiece = 128;
// What only becomes the past has no logits.
constexpr size_t kUnscoredPiece = 512;

// -log softmax(logits)[target]. One chain of additions, so that the same logits give the same bits.
double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[target]);
}

// Goes through a text window by window.
class PerplexityMeter {
 public:
  PerplexityMeter(const CausalLm& model, Context& context, std::span<const TokenId> tokens, Perplexity plan,
                  const Progress& progress)
      : model_(model), context_(context), tokens_(tokens), result_(plan), progress_(progress) {}

  Result<Perplexity> measure() {
    BALLAST_TRY(KvSequence past, make_lone_past(model_, context_, result_.context));
    size_t predicted = 1;  // tokens [0, predicted) are done with; nothing predicts the first
    for (size_t begin = 0; predicted < tokens_.size(); begin += result_.stride) {
      const size_t end = std::min(tokens_.size(), begin + result_.context);
      past.clear(model_.length_kind(end - begin));
      // The first token of a window is what its prediction begins with.
      predicted = std::max(predicted, begin + 1);
      BALLAST_CHECK(fill(past, begin, predicted - 1, end - begin));
      BALLAST_CHECK(score(past, predicted - 1, end, end - begin));
      predicted = end;
      ++result_.windows;
    }
    return result_;
  }

 private:
  // Tokens [begin, end) of a window become its past.
  Status fill(KvSequence& past, size_t begin, size_t end, uint64_t window) {
    while (begin < end) {
      const auto piece = tokens_.subspan(begin, std::min(end - begin, kUnscoredPiece));
      BALLAST_CHECK(forward_past(model_, context_, past, piece, window, LogitRows::kNone));
      begin += piece.size();
    }
    return {};
  }

  // Tokens [begin, end) become its past, and each predicts the one behind it, as far as that is before `end`.
  Status score(KvSequence& past, size_t begin, size_t end, uint64_t window) {
    std::vector<double> losses;
    while (begin + 1 < end) {
      const auto piece = tokens_.subspan(begin, std::min(end - 1 - begin, kScoredPiece));
      BALLAST_TRY(const Tensor logits, forward_past(model_, context_, past, piece, window, LogitRows::kAll));
      BALLAST_TRY(const auto values, HostValues<float>::of(logits));
      losses.resize(piece.size());
      const size_t vocabulary = logits.dims().back();
      context_.threads().for_ranges(piece.size(), 1, [&](size_t first, size_t last) {
        for (size_t i = first; i < last; ++i) {
          const auto row = values.span().subspan(i * vocabulary, vocabulary);
          losses[i] = negative_log_likelihood(row, tokens_[begin + i + 1]);
        }
      });
      for (const double loss : losses) {
        result_.total += loss;
        result_.sum_of_squares += loss * loss;
      }
      result_.scored += piece.size();
      begin += piece.size();
      BALLAST_CHECK(report_progress(progress_, {"predicting", begin + 1, tokens_.size()}));
    }
    return {};
  }

  const CausalLm& model_;
  Context& context_;
  std::span<const TokenId> tokens_;
  Perplexity result_;
  const Progress& progress_;
};

Result<Perplexity> plan_windows(const CausalLm& model, std::span<const TokenId> tokens,
                                const PerplexityOptions& options) {
  const uint64_t most = model.context_length();
  Perplexity plan;
  plan.tokens = tokens.size();
  plan.context = options.context != 0 ? options.context : std::min(most, PerplexityOptions::kLongestDefault);
  plan.stride = options.stride != 0 ? options.stride : std::max<uint64_t>(1, plan.context / 2);
  if (tokens.size() < 2) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a text of {} cannot be predicted: two tokens or more are needed",
                                  tokens.empty() ? "no tokens" : "one token"));
  }
  if (plan.context > most || plan.context < 2) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("windows of {} tokens do not fit: from 2 to the model's context of {}", plan.context, most));
  }
  if (plan.stride > plan.context) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a stride of {} leaves tokens out: windows have {}", plan.stride, plan.context));
  }
  const auto beyond = std::ranges::find_if(tokens, [&](TokenId id) { return id >= model.vocab_size(); });
  if (beyond == tokens.end()) return plan;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("token {} of the text is {}, and the model's vocabulary has {}: does the tokenizer "
                                "belong to the model?",
                                beyond - tokens.begin(), *beyond, model.vocab_size()));
}

}  // namespace

double Perplexity::mean() const { return scored == 0 ? 0 : total / static_cast<double>(scored); }

double Perplexity::value() const { return std::exp(mean()); }

double Perplexity::standard_error() const {
  if (scored < 2) return 0;
  const auto count = static_cast<double>(scored);
  const double variance = std::max(0.0, (sum_of_squares - count * mean() * mean()) / (count - 1));
  return value() * std::sqrt(variance / count);
}

Result<Perplexity> measure_perplexity(const CausalLm& model, Context& context, std::span<const TokenId> tokens,
                                      const PerplexityOptions& options) {
  return guarded([&]() -> Result<Perplexity> {
    BALLAST_TRY(const Perplexity plan, plan_windows(model, tokens, options));
    return PerplexityMeter(model, context, tokens, plan, options.progress).measure();
  });
}

}  // namespace ballast
