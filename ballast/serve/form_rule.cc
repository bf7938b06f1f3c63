#include "ballast/serve/form_rule.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace ballast::serve {

namespace {

constexpr std::string_view kReasoningEnd = "</think>";
constexpr std::string_view kFormSpace = " \n\r\t";

// Behind a mark that ends in `>`.
bool says_more(std::string_view bytes, size_t mark_end) {
  return bytes.find_first_not_of(kFormSpace, mark_end) != std::string_view::npos;
}

// Copied with its request; each copy goes on by itself.
class FormRule {
 public:
  FormRule(std::shared_ptr<const AnswerForm> form, const Tokenizer& tokenizer, size_t prompt, std::vector<TokenId> ends)
      : form_(std::move(form)), tokenizer_(tokenizer), prompt_(prompt), ends_(std::move(ends)) {
    restart();
  }

  Status operator()(std::span<float> logits, std::span<const TokenId> text) {
    if (text.size() < seen_) restart();
    while (!begin_ && seen_ < text.size()) take_reasoning(text[seen_++]);
    seen_ = text.size();
    if (!begin_) {
      keep_reasoning(logits);
      return {};
    }
    if (!rule_) find_branch(text.subspan(*begin_));
    if (rule_) return rule_(logits, text);
    force_lead_in(logits, text.subspan(*begin_));
    return {};
  }

 private:
  void restart() {
    seen_ = prompt_;
    tail_.clear();
    rule_ = {};
    begin_ = form_->begins_thinking ? std::nullopt : std::optional(prompt_);
  }

  void take_reasoning(TokenId id) {
    tail_ += tokenizer_.bytes_of(id).value_or("");
    if (tail_.find(kReasoningEnd) != std::string::npos) begin_ = seen_;
    tail_.erase(0, tail_.size() - std::min(tail_.size(), kReasoningEnd.size() - 1));
  }

  // It may say anything, but it must end before the answer does.
  void keep_reasoning(std::span<float> logits) const {
    forbid(logits, ends_);
    for (const TokenId id : form_->beyond_mark) {
      const std::string text = tail_ + std::string(tokenizer_.bytes_of(id).value_or(""));
      const size_t mark = text.find(kReasoningEnd);
      if (id < logits.size() && mark != std::string::npos && says_more(text, mark + kReasoningEnd.size())) {
        logits[id] = -HUGE_VALF;
      }
    }
  }

  static void forbid(std::span<float> logits, std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      if (id < logits.size()) logits[id] = -HUGE_VALF;
    }
  }

  static bool is_on(const FormBranch& branch, std::span<const TokenId> written) {
    const size_t common = std::min(branch.lead_in.size(), written.size());
    return std::ranges::equal(std::span(branch.lead_in).first(common), written.first(common));
  }

  void find_branch(std::span<const TokenId> written) {
    for (const FormBranch& branch : form_->branches) {
      if (written.size() < branch.lead_in.size() || !is_on(branch, written)) continue;
      rule_ = branch.constraint(*begin_ + branch.lead_in.size(), ends_);
      return;
    }
  }

  void force_lead_in(std::span<float> logits, std::span<const TokenId> written) const {
    std::vector<std::pair<TokenId, float>> kept;
    for (const FormBranch& branch : form_->branches) {
      const TokenId next = is_on(branch, written) ? branch.lead_in[written.size()] : UINT32_MAX;
      if (next < logits.size()) kept.emplace_back(next, logits[next]);
    }
    std::ranges::fill(logits, -HUGE_VALF);
    for (const auto& [id, value] : kept) logits[id] = value;
  }

  std::shared_ptr<const AnswerForm> form_;
  Tokenizer tokenizer_;
  size_t prompt_;
  std::vector<TokenId> ends_;

  size_t seen_ = 0;              // tokens of the text
  std::string tail_;             // of the reasoning
  std::optional<size_t> begin_;  // of the form; nullopt: the reasoning goes on
  TokenRule rule_;               // of the branch that the answer has taken
};

}  // namespace

std::vector<TokenId> tokens_beyond_mark(const Tokenizer& tokenizer) {
  std::vector<TokenId> found;
  size_t known = 0;
  for (TokenId id = 0; known < tokenizer.size() && id < (TokenId{1} << 24U); ++id) {
    const auto bytes = tokenizer.bytes_of(id);
    if (!bytes) continue;
    ++known;
    const size_t end = bytes->find(kReasoningEnd.back());
    if (end != std::string_view::npos && says_more(*bytes, end + 1)) found.push_back(id);
  }
  return found;
}

TokenRule make_form_rule(std::shared_ptr<const AnswerForm> form, const Tokenizer& tokenizer, size_t prompt,
                         std::vector<TokenId> ends) {
  return FormRule(std::move(form), tokenizer, prompt, std::move(ends));
}

}  // namespace ballast::serve
