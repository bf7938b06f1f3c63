// What a tokenizer holds: the stages that a text goes through.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/text/tokenizer/token_spans.h"
#include "ballast/text/tokenizer/tokenizer_description.h"
#include "ballast/text/tokenizer/traced_text.h"

namespace ballast {

// Immutable once made, so any number of threads may use it.
class Tokenizer::Stages {
 public:
  static Result<Stages> make(TokenizerDescription description);

  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const;
  Result<Encoding> encode_full(std::string_view text, const EncodeOptions& options) const;
  // With a cache that other texts have filled, or will use.
  Result<Encoding> encode_full(std::string_view text, const EncodeOptions& options,
                               BytePairEncoder::Cache& cache) const;
  Result<Encoding> encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const;
  Result<std::string> decode(std::span<const TokenId> ids, const DecodeOptions& options) const;
  std::optional<std::string_view> bytes_of(TokenId id) const;
  bool is_special(TokenId id) const;
  std::optional<TokenId> find(std::string_view text) const;
  size_t size() const { return texts_.size(); }
  const TokenMarks& marks() const { return marks_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool decodes_each_alone() const { return decoders_.empty(); }

 private:
  using Model = std::variant<BytePairEncoder, CharPairEncoder, UnigramEncoder, WordEncoder>;
  struct IdText {
    TokenId id;
    bool special;
    std::string text;   // as the decoders want it; empty where there are none
    std::string bytes;  // that it stands for
  };

  Stages(Model model, AddedTokens added) : model_(std::move(model)), added_(std::move(added)) {}
  Status add_texts(const TokenizerDescription& description);
  // The tokens of a text, and, where they are asked for, the parts of it that they stand for.
  struct Tokens {
    std::vector<TokenId> ids;
    std::vector<TextSpan> spans;
  };
  Result<Tokens> encode_one(std::string_view text, const EncodeOptions& options, BytePairEncoder::Cache& cache) const;
  Result<std::vector<TokenId>> encode_text(std::string_view text, bool special, BytePairEncoder::Cache& cache) const;
  Result<Encoding> finish(Tokens first, Tokens* second, const EncodeOptions& options) const;
  Result<Tokens> encode_traced(std::string_view text, bool special) const;
  Status trace_between(const TracedText& text, bool special, bool first, BytePairEncoder::Cache& cache,
                       Tokens& out) const;
  Status trace_segment(const TracedText& text, size_t begin, size_t size, bool first, BytePairEncoder::Cache& cache,
                       Tokens& out) const;
  void add_found(const AddedToken& token, const TracedText& text, size_t begin, size_t size, Tokens& out) const;
  Status encode_piece(std::string_view piece, BytePairEncoder::Cache& cache, std::vector<TokenId>& out) const;
  TokenSpelling spelling_of(TokenId id) const;
  void trim_spans(Tokens& tokens) const;
  void learn_spelling(const TokenModel& model);
  Status encode_between(std::string_view text, bool special, bool first, BytePairEncoder::Cache& cache,
                        std::vector<TokenId>& out) const;
  Status encode_segment(std::string_view text, bool first, BytePairEncoder::Cache& cache,
                        std::vector<TokenId>& out) const;
  void learn_cut();
  void encode_cut(std::string_view text, BytePairEncoder::Cache& cache, std::vector<TokenId>& out) const;
  const IdText* find_id(TokenId id) const;

  Model model_;
  AddedTokens added_;
  std::vector<IdText> texts_;  // by id
  std::vector<Normalizer> normalizers_;
  std::vector<PreTokenizer> pre_tokenizers_;
  std::vector<TokenDecoder> decoders_;  // none: the bytes of the tokens one after the other
  PostProcessor post_processor_;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
  bool replace_broken_ = false;
  // Cuts a text into pieces, where that is all that happens between text and model.
  struct Cut {
    size_t (*piece_end)(std::string_view text, size_t at);
    bool add_prefix_space;
  };
  std::optional<Cut> cut_;
  SpellingMarks spelling_marks_;
  bool byte_tokens_ = false;  // some are spelled <0x00> to <0xFF>
  TokenMarks marks_;
  std::vector<std::string> notes_;
};

}  // namespace ballast
