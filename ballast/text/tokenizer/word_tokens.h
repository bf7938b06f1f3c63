// Models that look words up: WordPiece, and WordLevel, which knows whole words only.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/text/tokenizer/phrase_finder.h"

namespace ballast {

struct WordVocabulary {
  struct Token {
    std::string text;
    TokenId id;
  };
  std::vector<Token> tokens;      // of two with the same text the last counts
  std::string unknown = "[UNK]";  // stands for a word that cannot be put together
  bool whole_words = false;       // WordLevel
  // Of the tokens that continue a word, or, where that is empty, of those that begin one.
  std::string continuing_prefix = "##";
  std::string beginning_prefix;
  size_t max_chars = std::numeric_limits<size_t>::max();  // longer words are unknown
};

// Immutable once made, so any number of threads may encode with it.
class WordEncoder {
 public:
  static Result<WordEncoder> make(const WordVocabulary& vocabulary);

  // Appends the tokens of one word: from the left always the longest that fits. Linear.
  Status encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  Status add_unknown(std::string_view word, std::vector<TokenId>& out) const;

  std::unordered_map<std::string, TokenId> words_;
  std::shared_ptr<const PhraseFinder> beginnings_;  // read backwards
  std::shared_ptr<const PhraseFinder> continuations_;
  std::optional<TokenId> unknown_;
  std::string unknown_text_;
  size_t max_chars_ = 0;
};

}  // namespace ballast
