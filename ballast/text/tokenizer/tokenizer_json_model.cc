// Models of tokenizer.json: BPE, Unigram, WordPiece, WordLevel.
#include <fmt/format.h>

#include <array>

#include "ballast/text/tokenizer/tokenizer_json.h"

namespace ballast {

namespace {

template <typename Token>
Result<std::vector<Token>> parse_vocabulary(const JsonObject& fields) {
  const auto raw = fields.find("vocab");
  if (!raw || !raw->starts_with('{')) return fields.corrupt("there is no \"vocab\" of texts and ids");
  std::vector<Token> tokens;
  JsonReader reader(*raw, fmt::format("{}: \"vocab\"", fields.where()));
  BALLAST_CHECK(reader.enter_object());
  std::string text;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(text));
    if (!more) return tokens;
    BALLAST_TRY(const TokenId id, read_token_id(reader));
    tokens.push_back({text, id});
  }
}

// ---------------------------------------------------------------- BPE

using Merge = CharPairVocabulary::Merge;

// "left right"
Result<std::optional<Merge>> read_merge_text(JsonReader& reader, bool first) {
  std::string text;
  BALLAST_CHECK(assign(text, reader.read_string()));
  if (first && text.starts_with("#version")) return std::optional<Merge>();
  const size_t space = text.find(' ');
  if (space == std::string::npos) return reader.error_here(fmt::format("merge \"{}\" has no space", text));
  if (text.find(' ', space + 1) != std::string::npos) {
    return reader.error_here(fmt::format("merge \"{}\" has more than two parts", text));
  }
  return std::optional(Merge{text.substr(0, space), text.substr(space + 1)});
}

// ["left", "right"]
Result<std::optional<Merge>> read_merge_pair(JsonReader& reader) {
  std::array<std::string, 2> sides;
  BALLAST_CHECK(reader.enter_array());
  for (std::string& side : sides) {
    BALLAST_TRY(const bool more, reader.next_element());
    if (!more) return reader.error_here("a merge needs two texts");
    BALLAST_CHECK(assign(side, reader.read_string()));
  }
  BALLAST_TRY(const bool more, reader.next_element());
  if (more) return reader.error_here("a merge has more than two texts");
  return std::optional(Merge{std::move(sides[0]), std::move(sides[1])});
}

Result<std::vector<Merge>> parse_merges(const JsonObject& fields) {
  std::vector<Merge> merges;
  const auto raw = fields.find("merges");
  if (!raw) return merges;
  JsonReader reader(*raw, fmt::format("{}: \"merges\"", fields.where()));
  BALLAST_CHECK(reader.enter_array());
  for (bool first = true;; first = false) {
    BALLAST_TRY(const bool more, reader.next_element());
    if (!more) return merges;
    BALLAST_TRY(const JsonType type, reader.peek());
    BALLAST_TRY(auto merge, type == JsonType::kString ? read_merge_text(reader, first) : read_merge_pair(reader));
    if (merge) merges.push_back(std::move(*merge));
  }
}

Result<TokenModel> parse_bpe(const JsonObject& fields) {
  CharPairVocabulary model;
  BALLAST_TRY(model.tokens, parse_vocabulary<CharPairVocabulary::Token>(fields));
  BALLAST_TRY(model.merges, parse_merges(fields));
  BALLAST_TRY(model.unknown, fields.text_or("unk_token", ""));
  BALLAST_TRY(model.continuing_prefix, fields.text_or("continuing_subword_prefix", ""));
  BALLAST_TRY(model.ending, fields.text_or("end_of_word_suffix", ""));
  BALLAST_TRY(model.fuse_unknown, fields.truth_or("fuse_unk", false));
  BALLAST_TRY(model.byte_fallback, fields.truth_or("byte_fallback", false));
  BALLAST_TRY(const bool whole, fields.truth_or("ignore_merges", false));
  if (whole) model.whole_pieces = CharPairVocabulary::WholePieces::kAlways;
  const auto dropout = fields.find("dropout");
  if (dropout && *dropout != "0" && *dropout != "0.0") {
    return fields.unsupported(fmt::format("a dropout of {}: it would give other tokens each time", *dropout));
  }
  return TokenModel(std::move(model));
}

// ---------------------------------------------------------------- Unigram

Result<TokenModel> parse_unigram(const JsonObject& fields) {
  UnigramVocabulary model;
  BALLAST_TRY(const auto entries, fields.elements("vocab"));
  for (const std::string_view entry : entries) {
    BALLAST_TRY(const auto sides, json_elements(entry, fields.where()));
    if (sides.size() != 2) return fields.corrupt("a token of a Unigram model must be a text and a number");
    UnigramVocabulary::Token token;
    BALLAST_TRY(token.text, JsonReader(sides[0], fields.where()).read_string());
    BALLAST_TRY(token.score, JsonReader(sides[1], fields.where()).read_double());
    token.id = static_cast<TokenId>(model.tokens.size());
    model.tokens.push_back(std::move(token));
  }
  if (fields.has("unk_id")) {
    BALLAST_TRY(const uint64_t unknown, fields.count("unk_id"));
    if (unknown >= model.tokens.size()) {
      return fields.corrupt(fmt::format("unk_id is {}, but there are {} tokens", unknown, model.tokens.size()));
    }
    model.unknown = static_cast<TokenId>(unknown);
  }
  BALLAST_TRY(model.byte_fallback, fields.truth_or("byte_fallback", false));
  return TokenModel(std::move(model));
}

// ---------------------------------------------------------------- words

Result<TokenModel> parse_word_piece(const JsonObject& fields) {
  WordVocabulary model;
  BALLAST_TRY(model.tokens, parse_vocabulary<WordVocabulary::Token>(fields));
  BALLAST_TRY(model.unknown, fields.text_or("unk_token", "[UNK]"));
  BALLAST_TRY(model.continuing_prefix, fields.text_or("continuing_subword_prefix", "##"));
  BALLAST_TRY(model.max_chars, fields.count_or("max_input_chars_per_word", 100));
  return TokenModel(std::move(model));
}

Result<TokenModel> parse_word_level(const JsonObject& fields) {
  WordVocabulary model;
  model.whole_words = true;
  BALLAST_TRY(model.tokens, parse_vocabulary<WordVocabulary::Token>(fields));
  BALLAST_TRY(model.unknown, fields.text_or("unk_token", "<unk>"));
  return TokenModel(std::move(model));
}

// Old files do not say what they are.
std::string guess_type(const JsonObject& fields) {
  if (fields.has("merges")) return "BPE";
  if (fields.has("unk_id")) return "Unigram";
  if (fields.has("continuing_subword_prefix") || fields.has("max_input_chars_per_word")) return "WordPiece";
  return "WordLevel";
}

}  // namespace

Result<TokenModel> parse_token_model(std::string_view json, const std::string& where) {
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  BALLAST_TRY(const std::string type, fields.text_or("type", guess_type(fields)));
  if (type == "BPE") return parse_bpe(fields);
  if (type == "Unigram") return parse_unigram(fields);
  if (type == "WordPiece") return parse_word_piece(fields);
  if (type == "WordLevel") return parse_word_level(fields);
  return fields.unsupported(fmt::format("its model is \"{}\"; BPE, Unigram, WordPiece and WordLevel are known", type));
}

}  // namespace ballast
