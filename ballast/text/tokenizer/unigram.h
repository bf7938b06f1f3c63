// Unigram models: of all ways to cut a piece into tokens the likeliest one.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/text/tokenizer/phrase_finder.h"

namespace ballast {

struct UnigramVocabulary {
  struct Token {
    std::string text;
    TokenId id;
    double score;            // logarithm of the probability
    bool in_text = true;     // off: never found in a text, such as marks and bytes
    bool counts_low = true;  // for the score of the unknown
  };
  std::vector<Token> tokens;
  std::optional<TokenId> unknown;  // stands for a run of characters that no token spells
  bool byte_fallback = false;      // such runs as tokens <0x00> to <0xFF>, where all that are needed exist
};

// Immutable once made, so any number of threads may encode with it.
class UnigramEncoder {
 public:
  static Result<UnigramEncoder> make(const UnigramVocabulary& vocabulary);

  // Appends the tokens of one piece, in time of the order of the piece's length times the number of tokens that may
  // end at one place. Of equally likely ways the one whose last token is longest.
  Status encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Step {
    double score = 0;
    size_t begin = SIZE_MAX;  // of the token that ends here; SIZE_MAX: none does
    uint32_t token = 0;
  };
  static constexpr uint32_t kUnknown = UINT32_MAX;

  std::vector<Step> find_best(std::string_view piece) const;
  Status add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  std::vector<TokenId> ids_;  // as the vocabulary has them
  std::vector<double> scores_;
  std::shared_ptr<const PhraseFinder> finder_;
  std::array<std::optional<TokenId>, 256> bytes_{};
  std::optional<TokenId> unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace ballast
