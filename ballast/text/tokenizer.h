// Text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast {

struct EncodeOptions {
  // Recognise special tokens in the text. Off for what users typed: they could end a turn by writing its mark. Without
  // it no text becomes a special token, except that a model may have only such a one for what it does not know.
  bool special_tokens = true;
  // Put the tokens around the text that the model expects there, such as a begin of text. Off for a text that a chat
  // template has made: it has them already.
  bool add_special_tokens = true;
  // Cut and fill up to the length that the file asks for.
  bool fit_length = false;
  // Say which part of the text each token stands for. Costs several times the encoding itself.
  bool offsets = false;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// Tokens with a meaning of their own, as far as the file names them.
struct TokenMarks {
  std::optional<TokenId> begin;
  std::optional<TokenId> end;
  std::optional<TokenId> unknown;
  std::optional<TokenId> classification;  // what BERT begins a text with
  std::optional<TokenId> separator;
  std::optional<TokenId> padding;
  std::optional<TokenId> mask;
  std::vector<TokenId> stops;  // any of them ends what a model says; with `end`, in ascending order
};

// A part of a text, in bytes.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// What a text becomes: lists of equal length.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<uint32_t> type_ids;  // which of two texts a token is of, as the model was taught to see it
  std::vector<bool> special;       // added around the text, not found in it
  // Where asked for: the whole characters that each token stands for, in the text that was given (of two, its own).
  // Nothing of one that was added. As the tokenizers library has them, also where the text was normalized.
  std::vector<TextSpan> offsets{};
  size_t padding_begin = 0;  // tokens from which to which the text was filled up; equal where it was not
  size_t padding_end = 0;
};

struct TokenizerDescription;  // text/tokenizer/tokenizer_description.h

// Immutable; any number of threads may use it. Copies share what they hold.
class Tokenizer {
 public:
  static Result<Tokenizer> make(TokenizerDescription description);

  // Fails where an expression of the file takes too long, a normalizer makes too much of the text, or a character is
  // unknown to a model that has no token for the unknown. Byte-level BPE as GPT-2 has it never fails.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // With type ids and what was added.
  Result<Encoding> encode_full(std::string_view text, const EncodeOptions& options = {}) const;
  // Two texts for models that compare them.
  Result<Encoding> encode_pair(std::string_view first, std::string_view second,
                               const EncodeOptions& options = {}) const;

  // Many texts on several threads (0: as many as the machine has), each as encode_full() does it. An error names the
  // text by its number.
  Result<std::vector<Encoding>> encode_batch(std::span<const std::string_view> texts, const EncodeOptions& options = {},
                                             unsigned threads = 0) const;

  // Bytes that are no UTF-8 where a character is cut by the end of the ids, or where the ids spell none. An id that
  // does not exist is kInvalidArgument.
  Result<std::string> decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // The bytes that a token stands for; nullopt for an id that does not exist.
  std::optional<std::string_view> bytes_of(TokenId id) const;
  bool is_special(TokenId id) const;
  // Of an added token's text, of a token's text as the file spells it, or of a token's exact bytes.
  std::optional<TokenId> find(std::string_view text) const;
  // Number of different ids.
  size_t size() const;
  const TokenMarks& marks() const;
  // What the reader of the file had to guess.
  const std::vector<std::string>& notes() const;
  // True where what ids decode to is what each decodes to alone, one after the other.
  bool decodes_each_alone() const;

 private:
  class Stages;
  explicit Tokenizer(std::shared_ptr<const Stages> stages) : stages_(std::move(stages)) {}

  std::shared_ptr<const Stages> stages_;
};

// The same spans in characters, for those who count texts that way. The spans lie within `text`.
std::vector<TextSpan> to_character_spans(std::string_view text, std::span<const TextSpan> spans);

// Turns tokens into text as they arrive, and holds back the beginning of a character until its end is there.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(tokenizer), options_(options) {}

  // What can be shown now that `id` has come. Bytes that cannot become a character any more appear as U+FFFD.
  Result<std::string> next(TokenId id);
  // What is left at the end: an unfinished character, as U+FFFD.
  std::string finish();

 private:
  Result<std::string> bytes_of_next(TokenId id);

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  std::vector<TokenId> window_;  // the last tokens, where what one decodes to depends on those before it
  size_t shown_ = 0;             // bytes of the window's text that were handed out
  std::string pending_;
};

}  // namespace ballast
