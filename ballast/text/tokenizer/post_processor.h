// What a model wants around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/text/tokenizer.h"

namespace ballast {

// The tokens around one text, and around two.
struct PostProcessor {
  struct Part {
    enum class Kind : uint8_t { kFirstText, kSecondText, kTokens };
    Kind kind = Kind::kFirstText;
    uint32_t type_id = 0;
    std::vector<TokenId> tokens;
  };
  std::vector<Part> single = {{Part::Kind::kFirstText, 0, {}}};
  std::vector<Part> pair = {{Part::Kind::kFirstText, 0, {}}, {Part::Kind::kSecondText, 1, {}}};
  bool trim_offsets = false;         // offsets leave the spaces around a token out
  bool trims_behind_prefix = false;  // a space was put before the text, which is none of it

  size_t added_count(bool two) const;
};

struct Truncation {
  enum class Strategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
  size_t max_length = 0;  // with the tokens that are added
  Strategy strategy = Strategy::kLongestFirst;
  bool from_left = false;
};

struct Padding {
  static constexpr size_t kMostTokens = size_t{1} << 24;
  size_t fixed = 0;        // 0: no length of its own
  size_t multiple_of = 0;  // 0: any
  bool on_left = false;
  TokenId id = 0;
  uint32_t type_id = 0;
};

// Cuts the texts so that they and what is added around them fit. kInvalidArgument where they cannot.
Status truncate(const Truncation& how, size_t added, std::vector<TokenId>& first, std::vector<TokenId>* second);

// What truncate() left of as many spans as there were tokens.
void truncate_spans(const Truncation& how, size_t left, std::vector<TextSpan>& spans);

// Puts the texts and, with `add_tokens`, the tokens around them in order.
Encoding assemble(const PostProcessor& how, const std::vector<TokenId>& first, const std::vector<TokenId>* second,
                  bool add_tokens);

// The offsets of what assemble() gives: of its texts those given, of other tokens none.
std::vector<TextSpan> assemble_spans(const PostProcessor& how, const std::vector<TextSpan>& first,
                                     const std::vector<TextSpan>* second, bool add_tokens);

void pad(const Padding& how, Encoding& encoding, bool offsets);

}  // namespace ballast
