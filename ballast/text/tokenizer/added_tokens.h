// Tokens that are looked for in the text itself, before anything is cut or merged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/text/tokenizer/normalizer.h"
#include "ballast/text/tokenizer/phrase_finder.h"

namespace ballast {

struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool special = false;     // a mark such as <|endoftext|>, not part of what is said
  bool strip_left = false;  // takes the white space on that side with it
  bool strip_right = false;
  bool single_word = false;  // only where no word character stands beside it
  bool normalized = false;   // found in the normalized text, as the token's own text is normalized
};

// A part of a text: a token, or what lies between tokens.
struct TextPart {
  std::string_view text;
  const AddedToken* token = nullptr;
};

// From left to right, of those that begin at one place the longest; in linear time.
class AddedTokens {
 public:
  static Result<AddedTokens> make(std::vector<AddedToken> tokens, const std::vector<Normalizer>& normalizers);

  // Cuts `text` at tokens that are looked for in the text as it is (`normalized` off) or in normalized text. Without
  // `special` those that are special are text like any other.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool special) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // The four ways to look, by (normalized, special).
  const PhraseFinder& finder(bool normalized, bool special) const { return finders_[2 * normalized + special]; }

  std::vector<AddedToken> tokens_;
  std::vector<PhraseFinder> finders_;
};

}  // namespace ballast
