// Text to tokens and back.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/text/byte_pairs.h"

namespace ballast {

// A token that is looked for in the text itself, before anything is cut or merged.
struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool special = false;  // a mark such as <|endoftext|>, not part of what is said
};

struct EncodeOptions {
  // Recognise special tokens in the text. Off for what users typed: they could end a turn by writing its mark.
  bool special_tokens = true;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// What a tokenizer file describes, before it is made ready for use.
struct TokenizerDescription {
  BytePairVocabulary vocabulary;
  std::vector<AddedToken> added;
  bool add_prefix_space = false;
};

// Byte-level BPE as GPT-2 has it: any bytes can be encoded and come back. Immutable; any number of threads may use it.
class Tokenizer {
 public:
  static Result<Tokenizer> make(TokenizerDescription description);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Bytes that are no UTF-8 where a character is cut by the end of the ids, or where the ids spell none. An id that
  // does not exist is kInvalidArgument.
  Result<std::string> decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // The bytes that a token stands for; nullopt for an id that does not exist.
  std::optional<std::string_view> bytes_of(TokenId id) const;
  bool is_special(TokenId id) const;
  // Of an added token's text, or of a token's exact bytes.
  std::optional<TokenId> find(std::string_view text) const;
  // Number of different ids.
  size_t size() const { return texts_.size(); }

 private:
  struct IdText {
    TokenId id;
    bool special;
    std::string bytes;
  };

  explicit Tokenizer(BytePairEncoder encoder) : encoder_(std::move(encoder)) {}
  void encode_plain(std::string_view text, BytePairEncoder::Cache& cache, std::vector<TokenId>& out) const;
  // The added token that begins first at or after `from`, the longest of those; its position, or npos.
  std::pair<size_t, const AddedToken*> find_added(std::string_view text, size_t from, bool special) const;
  const IdText* find_id(TokenId id) const;

  BytePairEncoder encoder_;
  std::vector<IdText> texts_;      // by id
  std::vector<AddedToken> added_;  // longest first
  bool added_first_byte_[256] = {};
  bool add_prefix_space_ = false;
};

// Turns tokens into text as they arrive, and holds back the beginning of a character until its end is there.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // What can be shown now that `id` has come. Bytes that cannot become a character any more appear as U+FFFD.
  Result<std::string> next(TokenId id);
  // What is left at the end: an unfinished character, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

}  // namespace ballast
