#include "ballast/text/constraint/number_range.h"

#include <algorithm>
#include <string>

namespace ballast {

namespace {

constexpr uint32_t kFractionDigits = 6;

ExprId some_digits(GrammarDraft& draft, char first, char last, size_t least, size_t most) {
  return draft.repeat(draft.chars({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}}),
                      static_cast<uint32_t>(least), static_cast<uint32_t>(most));
}

// Numbers of as many digits as both bounds have.
ExprId same_length(GrammarDraft& draft, const std::string& least, const std::string& most) {
  const size_t size = least.size();
  if (least == std::string(size, '0') && most == std::string(size, '9'))
    return some_digits(draft, '0', '9', size, size);
  if (least[0] == most[0]) {
    return draft.sequence({draft.text(least.substr(0, 1)), same_length(draft, least.substr(1), most.substr(1))});
  }
  std::vector<ExprId> ways;
  ways.push_back(draft.sequence(
      {draft.text(least.substr(0, 1)), same_length(draft, least.substr(1), std::string(size - 1, '9'))}));
  if (most[0] - least[0] > 1) {
    ways.push_back(
        draft.sequence({some_digits(draft, static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1), 1, 1),
                        some_digits(draft, '0', '9', size - 1, size - 1)}));
  }
  ways.push_back(
      draft.sequence({draft.text(most.substr(0, 1)), same_length(draft, std::string(size - 1, '0'), most.substr(1))}));
  return draft.choice(std::move(ways));
}

// Without a sign.
ExprId magnitude_range(GrammarDraft& draft, uint64_t least, uint64_t most) {
  std::vector<ExprId> ways;
  uint64_t begin = least;
  for (uint64_t end = 9; begin <= most; end = end * 10 + 9) {
    if (end < begin) continue;
    const uint64_t last = std::min(end, most);
    ways.push_back(same_length(draft, std::to_string(begin), std::to_string(last)));
    begin = last + 1;
  }
  return draft.choice(std::move(ways));
}

// Numbers with fractions, without a sign.
void add_magnitudes(GrammarDraft& draft, std::vector<ExprId>& ways, uint64_t least, bool above_least, uint64_t most,
                    bool below_most) {
  if (least > most || (least == most && (above_least || below_most))) return;
  const ExprId point = draft.text(".");
  const ExprId fraction = draft.sequence({point, some_digits(draft, '0', '9', 1, kFractionDigits)});
  uint64_t first = least;
  if (above_least) {
    ++first;
    std::vector<ExprId> not_zero;  // by the number of zeros before the first other digit
    for (uint32_t zeros = 0; zeros < kFractionDigits; ++zeros) {
      not_zero.push_back(draft.sequence({some_digits(draft, '0', '0', zeros, zeros), some_digits(draft, '1', '9', 1, 1),
                                         some_digits(draft, '0', '9', 0, kFractionDigits - 1 - zeros)}));
    }
    ways.push_back(draft.sequence({draft.text(std::to_string(least)), point, draft.choice(std::move(not_zero))}));
  }
  if (first < most) {
    ways.push_back(draft.sequence({magnitude_range(draft, first, most - 1), draft.optional(fraction)}));
  }
  if (below_most || first > most) return;
  const ExprId zeros = draft.sequence({point, some_digits(draft, '0', '0', 1, kFractionDigits)});
  ways.push_back(draft.sequence({draft.text(std::to_string(most)), draft.optional(zeros)}));
}

uint64_t magnitude_of(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace

ExprId integer_range(GrammarDraft& draft, int64_t least, int64_t most) {
  std::vector<ExprId> ways;
  if (least < 0) {
    const ExprId below_zero = magnitude_range(draft, most < 0 ? magnitude_of(most) : 1, magnitude_of(least));
    ways.push_back(draft.sequence({draft.text("-"), below_zero}));
  }
  if (most >= 0) ways.push_back(magnitude_range(draft, magnitude_of(std::max<int64_t>(least, 0)), magnitude_of(most)));
  return draft.choice(std::move(ways));
}

ExprId number_range(GrammarDraft& draft, const NumberBounds& bounds) {
  std::vector<ExprId> ways, below_zero;
  if (bounds.least < 0) {
    const bool crosses = bounds.most >= 0;  // then from 0 on, but not -0
    add_magnitudes(draft, below_zero, crosses ? 0 : magnitude_of(bounds.most), crosses || bounds.below_most,
                   magnitude_of(bounds.least), bounds.above_least);
    ways.push_back(draft.sequence({draft.text("-"), draft.choice(std::move(below_zero))}));
  }
  if (bounds.most >= 0) {
    add_magnitudes(draft, ways, magnitude_of(std::max<int64_t>(bounds.least, 0)),
                   bounds.least >= 0 && bounds.above_least, magnitude_of(bounds.most), bounds.below_most);
  }
  return draft.choice(std::move(ways));
}

}  // namespace ballast
