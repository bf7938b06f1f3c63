// What happens to a text before it is cut into pieces.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/text/tokenizer/charsmap.h"
#include "ballast/text/tokenizer/phrase_finder.h"
#include "ballast/text/tokenizer/text_pattern.h"
#include "ballast/text/unicode.h"

namespace ballast {

// One struct for each kind that files know; a Sequence is a list of them.
struct LowerCase {};
struct StripSpaces {
  bool left = true;
  bool right = true;
};
struct StripAccents {};         // marks only: a decomposition must come first
struct CleanForTranslation {};  // "Nmt": odd spaces become spaces, controls go
struct PrependText {
  std::string text;  // to any text but the empty one
};
struct ReplaceText {
  TextPattern pattern;
  std::string content;
};
struct BertText {
  bool clean = true;
  bool space_ideographs = true;
  bool strip_accents = true;
  bool lower_case = true;
  // llama.cpp's way: of a decomposed character only the first part stays, marks of all kinds go, and what the
  // controls among the spaces stand for is a space.
  bool as_llama_cpp = false;
};
struct SpellBytes {};  // in GPT-2's alphabet
struct ApplyCharsmap {
  Charsmap map;
};
// All that SentencePiece does to a text, as its models describe it.
struct SentencePieceText {
  std::optional<Charsmap> map;
  bool add_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;                 // as U+2581
  bool space_behind = false;                 // what marks a word stands behind it
  std::shared_ptr<const PhraseFinder> kept;  // user-defined pieces, which nothing changes; read backwards; may be null
};

using Normalizer = std::variant<NormalForm, LowerCase, StripSpaces, StripAccents, CleanForTranslation, PrependText,
                                ReplaceText, BertText, SpellBytes, ApplyCharsmap, SentencePieceText>;

// All of them in order. kInvalidArgument where the text would grow beyond what any honest normalizer makes of it.
Result<std::string> normalize(const std::vector<Normalizer>& normalizers, std::string_view text);

// What SentencePiece makes of a text, and for each byte of it the place in `text` that it came from.
Result<std::string> to_sentence_piece_text(const SentencePieceText& how, std::string_view text,
                                           std::vector<size_t>& from);

// The most bytes that `size` bytes may become on any of the ways between text and tokens.
size_t most_bytes_for(size_t size);

}  // namespace ballast
