// Byte-pair encoding over characters: what SentencePiece's vocabularies and those without GPT-2's byte alphabet need.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/text/tokenizer/merge_table.h"
#include "ballast/text/tokenizer/phrase_finder.h"

namespace ballast {

struct CharPairVocabulary {
  struct Token {
    std::string text;
    TokenId id;
  };
  struct Merge {
    std::string left;
    std::string right;
  };
  enum class WholePieces : uint8_t { kNever, kLineBreaks, kAlways };

  std::vector<Token> tokens;  // of two with the same text the last counts
  std::vector<Merge> merges;  // in order of rank
  // Instead of merges: one for each token, which is then made of any two parts that are tokens or characters; the
  // highest score is merged first. Bytes and other tokens that no text may become have none.
  std::vector<std::optional<float>> scores;
  std::string unknown;            // stands for characters that no token spells; empty: they vanish before any merge
  std::string continuing_prefix;  // of every symbol but the first of a piece
  std::string ending;             // of the last symbol of a piece
  bool fuse_unknown = false;      // neighbours become one
  bool byte_fallback = false;     // unknown characters as tokens <0x00> to <0xFF>
  WholePieces whole_pieces = WholePieces::kNever;  // pieces that are tokens are those tokens, without merging
  std::vector<std::string> unbreakable;            // found before anything is merged, and never merged themselves
};

// Immutable once made, so any number of threads may encode with it.
class CharPairEncoder {
 public:
  static Result<CharPairEncoder> make(const CharPairVocabulary& vocabulary);

  // Appends the tokens of one piece; n log n.
  Status encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  using Symbol = MergeTable::Symbol;
  using WholePieces = CharPairVocabulary::WholePieces;
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  Status add_tokens(const CharPairVocabulary& vocabulary);
  Status add_merges(const CharPairVocabulary& vocabulary);
  Status add_scores(const CharPairVocabulary& vocabulary);
  void add_unbreakable(const CharPairVocabulary& vocabulary);
  Symbol find(std::string_view text) const;
  // Of a side of a token: a token that has a score, or a single character.
  Symbol part_of(std::string_view text, const std::vector<bool>& has_score);
  bool is_whole(std::string_view piece) const;
  Status add_chars(std::string_view piece, size_t begin, size_t end, std::vector<Symbol>& out) const;
  Status add_symbols(std::string_view piece, std::vector<Symbol>& out) const;
  Status add_unknown(std::string_view text, std::vector<Symbol>& out) const;
  // `first`: where the piece's tokens begin.
  Status emit(Symbol symbol, size_t first, std::vector<TokenId>& out) const;

  std::unordered_map<std::string, Symbol, TextHash, std::equal_to<>> symbols_;
  std::vector<TokenId> ids_;         // by symbol; those beyond are characters without a token of their own
  std::vector<std::string> loose_;   // the texts of these
  std::array<Symbol, 256> bytes_{};  // <0x00> to <0xFF>
  MergeTable merges_;
  std::shared_ptr<const PhraseFinder> unbreakable_;
  Symbol unknown_ = MergeTable::kNoSymbol;
  std::string unknown_text_;
  std::string continuing_prefix_;
  std::string ending_;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  WholePieces whole_pieces_ = WholePieces::kNever;
};

}  // namespace ballast
