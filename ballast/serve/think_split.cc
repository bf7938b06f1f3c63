#include "ballast/serve/think_split.h"

#include <algorithm>
#include <utility>

namespace ballast::serve {

namespace {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kThinkSpace = " \n\r\t";

void drop_leading_space(std::string& text) {
  text.erase(0, std::min(text.find_first_not_of(kThinkSpace), text.size()));
}

// How many bytes at the end of `text` may be the beginning of `mark`, with the white space before it.
size_t held_for(std::string_view text, std::string_view mark) {
  size_t held = 0;
  for (size_t length = std::min(mark.size() - 1, text.size()); length > 0 && held == 0; --length) {
    if (text.ends_with(mark.substr(0, length))) held = length;
  }
  while (held < text.size() && kThinkSpace.find(text[text.size() - held - 1]) != std::string_view::npos) ++held;
  return held;
}

std::string without_space_at_end(std::string text) {
  text.erase(text.find_last_not_of(kThinkSpace) + 1);
  return text;
}

}  // namespace

SplitText ThinkSplit::next(std::string_view text) {
  pending_ += text;
  SplitText split;
  advance(split, false);
  return split;
}

SplitText ThinkSplit::finish() {
  SplitText split;
  advance(split, true);
  return split;
}

void ThinkSplit::advance(SplitText& split, bool is_last) {
  if (state_ == State::kBefore) {
    const size_t begin = pending_.find_first_not_of(kThinkSpace);
    const std::string_view seen = begin == std::string::npos ? "" : std::string_view(pending_).substr(begin);
    if (seen.starts_with(kThinkBegin)) {
      pending_.erase(0, begin + kThinkBegin.size());
      state_ = State::kInside;
    } else if (is_last || !kThinkBegin.starts_with(seen)) {
      state_ = State::kBehind;
    } else {
      return;
    }
  }
  if (state_ == State::kInside) {
    if (!has_reasoning_) drop_leading_space(pending_);
    const size_t end = pending_.find(kThinkEnd);
    if (end != std::string::npos) {
      split.reasoning = without_space_at_end(pending_.substr(0, end));
      pending_.erase(0, end + kThinkEnd.size());
      state_ = State::kAfterMark;
    } else {
      const size_t held = is_last ? 0 : held_for(pending_, kThinkEnd);
      split.reasoning = pending_.substr(0, pending_.size() - held);
      pending_.erase(0, split.reasoning.size());
    }
    has_reasoning_ = has_reasoning_ || !split.reasoning.empty();
  }
  if (state_ == State::kAfterMark) {
    drop_leading_space(pending_);
    if (!pending_.empty()) state_ = State::kBehind;
  }
  if (state_ == State::kBehind) split.content = std::exchange(pending_, {});
}

}  // namespace ballast::serve
