#include "ballast/text/tokenizer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ballast/text/tokenizer/byte_alphabet.h"
#include "ballast/text/tokenizer/tokenizer_json.h"

namespace ballast {

namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

// ---------------------------------------------------------------- the document

Status check_version(const JsonObject& fields) {
  BALLAST_TRY(const std::string version, fields.text_or("version", "1.0"));
  if (version == "1.0") return {};
  return fields.unsupported(fmt::format("version \"{}\" of tokenizer.json; only 1.0 is known", version));
}

Status read_stages(const JsonObject& fields, TokenizerDescription& description) {
  const auto named = [&](std::string_view part) { return fmt::format("{}: {}", fields.where(), part); };
  if (const auto raw = fields.find("added_tokens")) {
    BALLAST_TRY(description.added, parse_added_tokens(*raw, named("added token")));
  }
  if (const auto raw = fields.find("normalizer")) {
    BALLAST_TRY(description.normalizers, parse_normalizer(*raw, named("normalizer")));
  }
  if (const auto raw = fields.find("pre_tokenizer")) {
    BALLAST_TRY(description.pre_tokenizers, parse_pre_tokenizer(*raw, named("pre-tokenizer")));
  }
  if (const auto raw = fields.find("post_processor")) {
    BALLAST_TRY(description.post_processor, parse_post_processor(*raw, named("post-processor")));
  }
  description.decoders = {DecodeJoin{}};
  if (const auto raw = fields.find("decoder")) {
    BALLAST_TRY(description.decoders, parse_token_decoder(*raw, named("decoder")));
  }
  if (const auto raw = fields.find("truncation")) {
    BALLAST_TRY(description.truncation, parse_truncation(*raw, named("truncation")));
  }
  if (const auto raw = fields.find("padding")) {
    BALLAST_TRY(description.padding, parse_padding(*raw, named("padding")));
  }
  return {};
}

bool is_byte_level(const TokenizerDescription& description) {
  if (description.pre_tokenizers.empty() || description.decoders.size() != 1) return false;
  const auto* last = std::get_if<SplitBytes>(&description.pre_tokenizers.back());
  const auto spells = [](const PreTokenizer& stage) { return std::holds_alternative<SplitBytes>(stage); };
  return last != nullptr && std::ranges::count_if(description.pre_tokenizers, spells) == 1 &&
         std::holds_alternative<DecodeBytes>(description.decoders[0]);
}

Result<TokenizerDescription> read_document(const JsonObject& fields) {
  TokenizerDescription description;
  BALLAST_CHECK(check_version(fields));
  BALLAST_CHECK(read_stages(fields, description));
  BALLAST_TRY(description.model, parse_token_model(*fields.find("model"), fields.where() + ": model"));
  auto* pairs = std::get_if<CharPairVocabulary>(&description.model);
  if (pairs == nullptr || !is_byte_level(description)) return description;
  description.model = as_byte_pairs(std::move(*pairs));
  if (std::holds_alternative<BytePairVocabulary>(description.model)) {
    std::get<SplitBytes>(description.pre_tokenizers.back()).spell = false;
  }
  return description;
}

// gpt.rs's own: its mark for the unknown is the end of text in GPT-2's files, and <unk> where none is named.
Result<TokenizerDescription> read_flat(std::string_view json, const JsonObject& fields) {
  BALLAST_TRY(TokenModel model, parse_token_model(json, fields.where()));
  auto* pairs = std::get_if<CharPairVocabulary>(&model);
  if (pairs == nullptr) return fields.unsupported("a flat file without merges");
  if (pairs->unknown.empty()) pairs->unknown = "<unk>";
  TokenizerDescription description = gpt2_description();
  const auto unknown = std::ranges::find(pairs->tokens, pairs->unknown, &CharPairVocabulary::Token::text);
  if (unknown == pairs->tokens.end()) {
    pairs->unknown.clear();
  } else {
    description.added.push_back({.text = unknown->text,
                                 .id = unknown->id,
                                 .special = true,
                                 .strip_left = false,
                                 .strip_right = false,
                                 .single_word = false,
                                 .normalized = false});
  }
  description.model = as_byte_pairs(std::move(*pairs));
  if (!std::holds_alternative<BytePairVocabulary>(description.model)) {
    return fields.unsupported("its texts are not in GPT-2's byte alphabet");
  }
  return description;
}

// ---------------------------------------------------------------- tokenizer_config.json

// A token is a text, or an object with its content.
Result<std::string> token_text(const JsonObject& fields, std::string_view key) {
  const auto raw = fields.find(key);
  if (!raw) return std::string();
  if (!raw->starts_with('{')) return fields.text(key);
  BALLAST_TRY(const JsonObject token, JsonObject::parse(*raw, fields.where(), kStrictRules));
  return token.text_or("content", "");
}

std::optional<TokenId> id_of_text(const TokenizerDescription& description, std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const AddedToken& token : description.added) {
    if (token.text == text) return token.id;
  }
  const auto find_in = [&](const auto& vocabulary) -> std::optional<TokenId> {
    for (const auto& token : vocabulary.tokens) {
      if constexpr (requires { token.bytes; }) {
        if (token.bytes == text) return token.id;
      } else {
        if (token.text == text) return token.id;
      }
    }
    return std::nullopt;
  };
  return std::visit(find_in, description.model);
}

void add_begin_and_end(PostProcessor& processor, std::optional<TokenId> begin, std::optional<TokenId> end) {
  using Part = PostProcessor::Part;
  const auto around = [&](Part::Kind kind, uint32_t type_id, std::vector<Part>& parts) {
    if (begin) parts.push_back({Part::Kind::kTokens, type_id, {*begin}});
    parts.push_back({kind, type_id, {}});
    if (end) parts.push_back({Part::Kind::kTokens, type_id, {*end}});
  };
  processor.single.clear();
  processor.pair.clear();
  around(Part::Kind::kFirstText, 0, processor.single);
  around(Part::Kind::kFirstText, 0, processor.pair);
  around(Part::Kind::kSecondText, 1, processor.pair);
}

}  // namespace

TokenModel as_byte_pairs(CharPairVocabulary vocabulary) {
  if (!vocabulary.continuing_prefix.empty() || !vocabulary.ending.empty() || !vocabulary.scores.empty()) {
    return vocabulary;
  }
  BytePairVocabulary bytes;
  bytes.whole_pieces_first = vocabulary.whole_pieces == CharPairVocabulary::WholePieces::kAlways;
  size_t single_bytes = 0;
  for (const auto& [text, id] : vocabulary.tokens) {
    auto spelled = from_byte_alphabet(text);
    if (text == vocabulary.unknown) bytes.unknown = id;
    if (!spelled) continue;  // no text of bytes leads to it
    single_bytes += spelled->size() == 1;
    bytes.tokens.push_back({std::move(*spelled), id});
  }
  const bool complete = single_bytes >= 256;
  if (!complete && (vocabulary.byte_fallback || vocabulary.fuse_unknown)) return vocabulary;
  if (!complete && !vocabulary.unknown.empty() && !bytes.unknown) return vocabulary;
  for (const auto& [left, right] : vocabulary.merges) {
    auto left_bytes = from_byte_alphabet(left);
    auto right_bytes = from_byte_alphabet(right);
    if (!left_bytes || !right_bytes) return vocabulary;
    bytes.merges.push_back({std::move(*left_bytes), std::move(*right_bytes)});
  }
  // Tokens that no text leads to still have an id.
  for (const auto& [text, id] : vocabulary.tokens) {
    if (!from_byte_alphabet(text)) bytes.unreachable.push_back({text, id});
  }
  return bytes;
}

Result<TokenizerDescription> parse_tokenizer_json(std::string_view json, const std::string& where) {
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  if (fields.has("model")) return read_document(fields);
  if (fields.has("vocab")) return read_flat(json, fields);
  return fields.corrupt("no vocabulary: this is no tokenizer file");
}

Status apply_tokenizer_config(std::string_view json, const std::string& where, TokenizerDescription& description) {
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  TokenMarks& marks = description.marks;
  const auto mark = [&](std::string_view key, std::optional<TokenId>& id) -> Status {
    BALLAST_TRY(const std::string text, token_text(fields, key));
    if (!id) id = id_of_text(description, text);
    return {};
  };
  BALLAST_CHECK(mark("bos_token", marks.begin));
  BALLAST_CHECK(mark("eos_token", marks.end));
  BALLAST_CHECK(mark("unk_token", marks.unknown));
  BALLAST_CHECK(mark("sep_token", marks.separator));
  BALLAST_CHECK(mark("pad_token", marks.padding));
  BALLAST_CHECK(mark("mask_token", marks.mask));
  if (marks.end && marks.stops.empty()) marks.stops = {*marks.end};
  // Where the tokenizer itself says what is around a text, that counts.
  if (description.post_processor.added_count(false) > 0) return {};
  BALLAST_TRY(const bool begin, fields.truth_or("add_bos_token", false));
  BALLAST_TRY(const bool end, fields.truth_or("add_eos_token", false));
  add_begin_and_end(description.post_processor, begin ? marks.begin : std::nullopt, end ? marks.end : std::nullopt);
  return {};
}

Result<TokenizerDescription> parse_vocab_and_merges(std::string_view vocab_json, const std::string& vocab_where,
                                                    std::string_view merges, const std::string& merges_where) {
  CharPairVocabulary pairs;
  TokenizerDescription description = gpt2_description();
  JsonReader reader(vocab_json, vocab_where);
  BALLAST_CHECK(reader.enter_object());
  std::string text;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(text));
    if (!more) break;
    BALLAST_TRY(const TokenId id, read_token_id(reader));
    pairs.tokens.push_back({text, id});
    if (text == kEndOfText) {
      description.added.push_back({.text = text,
                                   .id = id,
                                   .special = true,
                                   .strip_left = false,
                                   .strip_right = false,
                                   .single_word = false,
                                   .normalized = false});
      description.marks.begin = description.marks.end = id;
      description.marks.stops = {id};
    }
  }
  BALLAST_CHECK(reader.finish());
  for (size_t line_number = 1; !merges.empty(); ++line_number) {
    const size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return make_error(
          ErrorCode::kCorrupt,
          fmt::format("{}: line {}: a merge needs two texts with a space between them", merges_where, line_number));
    }
    pairs.merges.push_back({std::string(line.substr(0, space)), std::string(line.substr(space + 1))});
  }
  description.model = as_byte_pairs(std::move(pairs));
  if (std::holds_alternative<BytePairVocabulary>(description.model)) return description;
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("{}: its merges are not in GPT-2's byte alphabet; a tokenizer.json says more", merges_where));
}

}  // namespace ballast
