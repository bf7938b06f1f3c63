// Vocabularies inside GGUF files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/description.h"
#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

// The keys tokenizer.ggml.* of a file. What is absent keeps the meaning that llama.cpp gives to its absence.
struct GgufVocabulary {
  enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string model;  // "llama", "gpt2", "bert", "t5", "gemma4"
  std::string pre;    // how text is cut before byte pairs are merged
  std::string name;   // of the model the file holds, and its architecture: some are known for habits of their own
  std::string architecture;
  std::vector<std::string> tokens;
  std::vector<float> scores;         // none, or one for each token
  std::vector<int32_t> token_types;  // none, or one for each token
  std::vector<std::string> merges;   // "left right"
  std::string charsmap;
  TokenMarks marks;
  std::optional<bool> add_begin;
  std::optional<bool> add_end;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_spaces;
  std::optional<bool> lower_case;  // of BERT's normalizer
  std::optional<bool> strip_accents;
};

// True where a file says anything of a vocabulary.
bool has_gguf_vocabulary(const Description& description);

// kNotFound where there is none, kCorrupt where its lists do not fit each other. `where` names the file in errors.
Result<GgufVocabulary> read_gguf_vocabulary(const Description& description, const std::string& where);

// kUnsupported, by name, for a model that is not known; a `pre` that is not known is a note in the description.
Result<TokenizerDescription> describe_gguf_vocabulary(GgufVocabulary vocabulary, const std::string& where);

// How llama.cpp's name for a way of cutting is meant; see gguf_pre_tokenizers.cc for the table.
struct GgufPreTokenizer {
  std::vector<std::string> expressions;  // one after the other, matches alone
  bool whole_pieces = false;
  bool add_begin = false;
  bool known = true;
};
GgufPreTokenizer gguf_pre_tokenizer(std::string_view name);
// The other way: the name under which llama.cpp cuts by these expressions. Of several that it treats alike, the first
// of the table; one that also takes whole pieces as asked comes before one that does not.
std::optional<std::string> gguf_pre_tokenizer_name(const std::vector<std::string>& expressions, bool whole_pieces);

}  // namespace ballast
