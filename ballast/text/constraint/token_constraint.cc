#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/io/guard.h"
#include "ballast/text/constraint.h"
#include "ballast/text/constraint/token_masks.h"

namespace ballast {

namespace {

constexpr size_t kShownTail = 40;  // bytes
constexpr size_t kMostKnown = 32;  // constraints of a vocabulary

// The rule of one text. Copies go on independently: a text that is forked takes one along.
class TextRule {
 public:
  TextRule(std::shared_ptr<TokenMasks> masks, uint64_t prompt_tokens, std::span<const TokenId> stop_tokens)
      : masks_(std::move(masks)),
        prompt_tokens_(prompt_tokens),
        stop_tokens_(stop_tokens.begin(), stop_tokens.end()),
        matcher_(masks_->grammar()) {}

  Status operator()(std::span<float> logits, std::span<const TokenId> text) {
    return guarded([&]() -> Status {
      BALLAST_CHECK(check_stop_tokens(logits.size()));
      BALLAST_CHECK(catch_up(text));
      return forbid(logits);
    });
  }

 private:
  Status check_stop_tokens(size_t vocabulary) const {
    if (std::ranges::any_of(stop_tokens_, [&](TokenId id) { return id < vocabulary; })) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      "a constrained text must be able to end, but no token ends it: the model names no end-of-text "
                      "token, or it is to be ignored");
  }

  // A text that was put aside, restored or forked may be anywhere: only what extends what was seen goes on from there.
  Status catch_up(std::span<const TokenId> text) {
    if (text.size() < prompt_tokens_) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the text has {} tokens, and its prompt alone {}", text.size(), prompt_tokens_));
    }
    const auto written = text.subspan(prompt_tokens_);
    if (written.size() < seen_.size() || !std::ranges::equal(seen_, written.first(seen_.size()))) {
      seen_.clear();
      matcher_ = Matcher(masks_->grammar());
    }
    while (seen_.size() < written.size()) BALLAST_CHECK(take(written[seen_.size()]));
    return {};
  }

  Status take(TokenId id) {
    const auto bytes = masks_->trees().bytes_of(id, seen_.empty());
    if (bytes && matcher_.advance(*bytes)) {
      seen_.push_back(id);
      return {};
    }
    if (matcher_.overflowed()) return too_many_ways();
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("token {} (number {} behind the prompt) breaks the constraint after {}", id, seen_.size(), tail()));
  }

  Status forbid(std::span<float> logits) {
    BALLAST_CHECK(masks_->find_allowed(matcher_, seen_.empty(), allowed_));
    allowed_.resize((logits.size() + 63) / 64);
    for (const TokenId id : stop_tokens_) {
      if (id >= logits.size()) continue;
      const uint64_t bit = uint64_t{1} << (id % 64);
      if (matcher_.is_complete()) allowed_[id / 64] |= bit;
      else allowed_[id / 64] &= ~bit;
    }
    const bool is_any = keep_allowed(logits);
    if (is_any) return {};
    if (matcher_.overflowed()) return too_many_ways();
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("no token of the vocabulary continues {} as the constraint demands: the tokenizer "
                                  "cannot spell what has to follow",
                                  tail()));
  }

  // Forbids the others; false: there are none.
  bool keep_allowed(std::span<float> logits) const {
    uint64_t any = 0;
    for (size_t first = 0; first < logits.size(); first += 64) {
      const auto part = logits.subspan(first, std::min<size_t>(64, logits.size() - first));
      const uint64_t bits = allowed_[first / 64] & (~uint64_t{0} >> (64 - part.size()));
      any |= bits;
      if (bits == ~uint64_t{0}) continue;
      if (bits == 0) {
        std::ranges::fill(part, -HUGE_VALF);
        continue;
      }
      for (size_t i = 0; i < part.size(); ++i) part[i] = (bits >> i & 1U) != 0 ? part[i] : -HUGE_VALF;
    }
    return any != 0;
  }

  Error too_many_ways() const {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the grammar can match the text after {} in too many ways at once: more than {}, or "
                                  "so many that following them takes too long; make its alternatives begin differently",
                                  tail(), MatchStepper::kMostThreads));
  }

  std::string tail() const {
    std::string text;
    for (size_t i = 0; i < seen_.size(); ++i) text += masks_->trees().bytes_of(seen_[i], i == 0).value_or("");
    if (text.empty()) return "the beginning of the text";
    std::string shown;
    for (const char c : std::string_view(text).substr(text.size() - std::min(text.size(), kShownTail))) {
      const auto byte = static_cast<unsigned char>(c);
      shown += byte < 0x20 || byte > 0x7E ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    return fmt::format("\"{}{}\"", text.size() > kShownTail ? "..." : "", shown);
  }

  std::shared_ptr<TokenMasks> masks_;
  uint64_t prompt_tokens_;
  std::vector<TokenId> stop_tokens_;
  std::vector<TokenId> seen_;  // behind the prompt
  Matcher matcher_;            // of what was seen
  TokenBits allowed_;
};

}  // namespace

Result<std::shared_ptr<const TokenTrees>> make_token_trees(const Tokenizer& tokenizer) {
  return guarded([&] { return TokenTrees::make(tokenizer); });
}

Result<TokenConstraint> TokenConstraint::make(const Constraint& constraint, std::shared_ptr<const TokenTrees> trees) {
  return guarded([&]() -> Result<TokenConstraint> {
    return TokenConstraint(std::make_shared<TokenMasks>(constraint.grammar_, std::move(trees)));
  });
}

bool TokenConstraint::is_of(const Constraint& constraint) const { return masks_->grammar() == constraint.grammar_; }

bool TokenConstraint::is_abandoned() const { return masks_->grammar().use_count() == 1; }

size_t TokenConstraint::bytes() const { return masks_->bytes(); }

TokenConstraint::Rule TokenConstraint::operator()(uint64_t prompt_tokens, std::span<const TokenId> stop_tokens) const {
  return TextRule(masks_, prompt_tokens, stop_tokens);
}

Result<TokenConstraint> TokenConstraints::find(const Constraint& constraint,
                                               const std::shared_ptr<const TokenTrees>& trees) {
  return guarded([&]() -> Result<TokenConstraint> {
    std::erase_if(known_, [](const TokenConstraint& known) { return known.is_abandoned(); });
    const auto found =
        std::ranges::find_if(known_, [&](const TokenConstraint& known) { return known.is_of(constraint); });
    if (found != known_.end()) {
      known_.splice(known_.begin(), known_, found);
      return known_.front();
    }
    BALLAST_TRY(TokenConstraint made, TokenConstraint::make(constraint, trees));
    known_.push_front(std::move(made));
    if (known_.size() > kMostKnown) known_.pop_back();
    return known_.front();
  });
}

}  // namespace ballast
