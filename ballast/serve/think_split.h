// Tells a model's reasoning from its answer while both arrive.
#pragma once

#include <string>
#include <string_view>

namespace ballast::serve {

struct SplitText {
  std::string reasoning{};
  std::string content{};
};

// <think> ... </think> at the beginning of an answer is reasoning; behind it, and where there is none, everything is
// the answer. White space around the marks belongs to neither.
class ThinkSplit {
 public:
  // `knows_marks`: the family's template has them; otherwise the text is left alone. `begins_inside`: the prompt ends
  // with the first mark.
  ThinkSplit(bool knows_marks, bool begins_inside)
      : state_(!knows_marks    ? State::kBehind
               : begins_inside ? State::kInside
                               : State::kBefore) {}

  SplitText next(std::string_view text);
  // What was held back, when no more text comes.
  SplitText finish();

 private:
  enum class State : unsigned char { kBefore, kInside, kAfterMark, kBehind };
  void advance(SplitText& split, bool is_last);

  State state_;
  bool has_reasoning_ = false;
  std::string pending_;
};

}  // namespace ballast::serve
