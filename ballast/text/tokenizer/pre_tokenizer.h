// Cutting a text into the pieces that the model sees one at a time.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/text/tokenizer.h"
#include "ballast/text/tokenizer/text_pattern.h"

namespace ballast {

// What becomes of the matches that a text is cut at.
enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// One struct for each kind that files know; a Sequence is a list of them.
struct SplitAtPattern {
  TextPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // matches and what lies between them change places
};
struct SplitBytes {
  bool add_prefix_space = false;
  bool cut = true;    // by GPT-2's pattern
  bool spell = true;  // in GPT-2's alphabet; off where the model takes bytes
};
struct SplitMetaspace {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  std::string mark = "\u2581";
  Prepend prepend = Prepend::kAlways;
  bool cut = true;
};
struct SplitDigits {
  bool individual = false;
};
struct SplitPunctuation {
  SplitBehavior behavior = SplitBehavior::kIsolated;
};
struct SplitWords {};       // "Whitespace": words, and runs of what is neither word nor space
struct SplitWhiteSpace {};  // "WhitespaceSplit"
struct SplitBert {};        // at white space, punctuation alone
struct SplitAtCharacter {
  uint32_t code_point = ' ';
};
struct SplitScripts {};
struct SplitFixedLength {
  size_t length = 5;  // in characters
};

using PreTokenizer = std::variant<SplitAtPattern, SplitBytes, SplitMetaspace, SplitDigits, SplitPunctuation, SplitWords,
                                  SplitWhiteSpace, SplitBert, SplitAtCharacter, SplitScripts, SplitFixedLength>;

// Views of a text, or of what a pre-tokenizer made of it; valid while the list and the text live.
class PieceList {
 public:
  // What a pre-tokenizer made of a part of the text, and, where that is asked for, which byte each of its bytes is
  // from.
  struct Made {
    std::string text;
    std::vector<size_t> from;
  };
  struct Piece {
    std::string_view text;
    bool first;                  // stands at the very beginning of what the user wrote
    const Made* made = nullptr;  // null: a part of the text itself
  };

  // `traced`: origin() will be asked for.
  PieceList(std::string_view text, bool first, bool traced = false) : whole_(text), traced_(traced) {
    add(text, first, nullptr);
  }

  const std::vector<Piece>& pieces() const { return pieces_; }
  // The byte of the text that a byte of a piece came from.
  size_t origin(const Piece& piece, size_t at) const;

  Status apply(const PreTokenizer& pre_tokenizer);

 private:
  friend struct PreTokenizeOne;
  void add(std::string_view text, bool first, const Made* made) {
    if (!text.empty()) pieces_.push_back({text, first, made});
  }

  std::string_view whole_;
  bool traced_;
  std::vector<Piece> pieces_;
  std::deque<Made> kept_;
};

}  // namespace ballast
