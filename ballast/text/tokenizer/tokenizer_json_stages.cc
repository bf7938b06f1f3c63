// Normalizers, pre-tokenizers and decoders of tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "ballast/base/utf8.h"
#include "ballast/text/tokenizer/base64.h"
#include "ballast/text/tokenizer/tokenizer_json.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- normalizers

Result<Normalizer> parse_charsmap(const JsonObject& fields) {
  BALLAST_TRY(const std::string encoded, fields.text("precompiled_charsmap"));
  auto bytes = decode_base64(encoded);
  if (!bytes) return std::move(bytes).error().with_context(fields.where());
  auto map = Charsmap::parse(*bytes);
  if (!map) return std::move(map).error().with_context(fields.where());
  return Normalizer(ApplyCharsmap{std::move(*map)});
}

Result<Normalizer> parse_bert_text(const JsonObject& fields) {
  BertText how;
  BALLAST_TRY(how.clean, fields.truth_or("clean_text", true));
  BALLAST_TRY(how.space_ideographs, fields.truth_or("handle_chinese_chars", true));
  BALLAST_TRY(how.lower_case, fields.truth_or("lowercase", true));
  BALLAST_TRY(how.strip_accents, fields.truth_or("strip_accents", how.lower_case));
  return Normalizer(how);
}

Result<Normalizer> parse_one_normalizer(const JsonObject& fields) {
  BALLAST_TRY(const std::string type, fields.text("type"));
  if (type == "NFC") return Normalizer(NormalForm::kNfc);
  if (type == "NFD") return Normalizer(NormalForm::kNfd);
  if (type == "NFKC") return Normalizer(NormalForm::kNfkc);
  if (type == "NFKD") return Normalizer(NormalForm::kNfkd);
  if (type == "Lowercase") return Normalizer(LowerCase{});
  if (type == "StripAccents") return Normalizer(StripAccents{});
  if (type == "Nmt") return Normalizer(CleanForTranslation{});
  if (type == "ByteLevel") return Normalizer(SpellBytes{});
  if (type == "Precompiled") return parse_charsmap(fields);
  if (type == "BertNormalizer") return parse_bert_text(fields);
  if (type == "Strip") {
    StripSpaces how;
    BALLAST_TRY(how.left, fields.truth_or("strip_left", true));
    BALLAST_TRY(how.right, fields.truth_or("strip_right", true));
    return Normalizer(how);
  }
  if (type == "Prepend") {
    BALLAST_TRY(std::string text, fields.text("prepend"));
    return Normalizer(PrependText{std::move(text)});
  }
  if (type == "Replace") {
    BALLAST_TRY(TextPattern pattern, parse_text_pattern(fields));
    BALLAST_TRY(std::string content, fields.text("content"));
    return Normalizer(ReplaceText{std::move(pattern), std::move(content)});
  }
  return fields.unsupported(fmt::format("normalizer \"{}\" is not known", type));
}

// ---------------------------------------------------------------- pre-tokenizers

Result<SplitBehavior> parse_behavior(const JsonObject& fields) {
  BALLAST_TRY(const std::string name, fields.text_or("behavior", "Isolated"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return fields.unsupported(fmt::format("behavior \"{}\" is not known", name));
}

Result<uint32_t> parse_character(const JsonObject& fields, std::string_view key, const std::string& absent) {
  BALLAST_TRY(const std::string text, fields.text_or(key, absent));
  size_t at = 0;
  const auto code_point = take_code_point(text, at);
  if (!code_point || at != text.size()) {
    return fields.corrupt(fmt::format("\"{}\" is \"{}\", which is not one character", key, text));
  }
  return *code_point;
}

// Older files say add_prefix_space.
Result<SplitMetaspace> parse_metaspace(const JsonObject& fields) {
  SplitMetaspace how;
  BALLAST_TRY(const uint32_t mark, parse_character(fields, "replacement", "\u2581"));
  how.mark.clear();
  append_utf8(how.mark, mark);
  BALLAST_TRY(const bool prefix, fields.truth_or("add_prefix_space", true));
  BALLAST_TRY(const std::string scheme, fields.text_or("prepend_scheme", prefix ? "always" : "never"));
  using Prepend = SplitMetaspace::Prepend;
  if (scheme == "always") how.prepend = Prepend::kAlways;
  else if (scheme == "first") how.prepend = Prepend::kFirst;
  else if (scheme == "never") how.prepend = Prepend::kNever;
  else return fields.unsupported(fmt::format("prepend_scheme \"{}\" is not known", scheme));
  BALLAST_TRY(how.cut, fields.truth_or("split", true));
  return how;
}

Result<PreTokenizer> parse_split(const JsonObject& fields) {
  BALLAST_TRY(TextPattern pattern, parse_text_pattern(fields));
  BALLAST_TRY(const SplitBehavior behavior, parse_behavior(fields));
  BALLAST_TRY(const bool invert, fields.truth_or("invert", false));
  return PreTokenizer(SplitAtPattern{std::move(pattern), behavior, invert});
}

Result<PreTokenizer> parse_byte_level(const JsonObject& fields) {
  SplitBytes how;
  BALLAST_TRY(how.add_prefix_space, fields.truth_or("add_prefix_space", true));
  BALLAST_TRY(how.cut, fields.truth_or("use_regex", true));
  return PreTokenizer(how);
}

Result<PreTokenizer> parse_fixed_length(const JsonObject& fields) {
  BALLAST_TRY(const uint64_t length, fields.count_or("length", 5));
  if (length == 0) return fields.corrupt("pieces of no length");
  return PreTokenizer(SplitFixedLength{static_cast<size_t>(std::min<uint64_t>(length, SIZE_MAX))});
}

Result<PreTokenizer> parse_one_pre_tokenizer(const JsonObject& fields) {
  BALLAST_TRY(const std::string type, fields.text("type"));
  if (type == "Split") return parse_split(fields);
  if (type == "ByteLevel") return parse_byte_level(fields);
  if (type == "Metaspace") {
    BALLAST_TRY(SplitMetaspace how, parse_metaspace(fields));
    return PreTokenizer(std::move(how));
  }
  if (type == "Digits") {
    BALLAST_TRY(const bool individual, fields.truth_or("individual_digits", false));
    return PreTokenizer(SplitDigits{individual});
  }
  if (type == "Punctuation") {
    BALLAST_TRY(const SplitBehavior behavior, parse_behavior(fields));
    return PreTokenizer(SplitPunctuation{behavior});
  }
  if (type == "Whitespace") return PreTokenizer(SplitWords{});
  if (type == "WhitespaceSplit") return PreTokenizer(SplitWhiteSpace{});
  if (type == "BertPreTokenizer") return PreTokenizer(SplitBert{});
  if (type == "UnicodeScripts") return PreTokenizer(SplitScripts{});
  if (type == "FixedLength") return parse_fixed_length(fields);
  if (type == "CharDelimiterSplit") {
    BALLAST_TRY(const uint32_t delimiter, parse_character(fields, "delimiter", ""));
    return PreTokenizer(SplitAtCharacter{delimiter});
  }
  return fields.unsupported(fmt::format("pre-tokenizer \"{}\" is not known", type));
}

// ---------------------------------------------------------------- decoders

Result<TokenDecoder> parse_word_piece_decoder(const JsonObject& fields) {
  DecodeWordPiece how;
  BALLAST_TRY(how.prefix, fields.text_or("prefix", "##"));
  BALLAST_TRY(how.clean_up, fields.truth_or("cleanup", true));
  return TokenDecoder(std::move(how));
}

Result<TokenDecoder> parse_metaspace_decoder(const JsonObject& fields) {
  BALLAST_TRY(const SplitMetaspace how, parse_metaspace(fields));
  return TokenDecoder(DecodeMetaspace{how.mark, how.prepend != SplitMetaspace::Prepend::kNever});
}

Result<TokenDecoder> parse_ctc_decoder(const JsonObject& fields) {
  DecodeCtc how;
  BALLAST_TRY(how.pad, fields.text_or("pad_token", "<pad>"));
  BALLAST_TRY(how.word_delimiter, fields.text_or("word_delimiter_token", "|"));
  BALLAST_TRY(how.clean_up, fields.truth_or("cleanup", true));
  return TokenDecoder(std::move(how));
}

Result<TokenDecoder> parse_strip_decoder(const JsonObject& fields) {
  DecodeStrip how;
  BALLAST_TRY(const uint32_t character, parse_character(fields, "content", " "));
  how.character.clear();
  append_utf8(how.character, character);
  BALLAST_TRY(how.start, fields.count_or("start", 0));
  BALLAST_TRY(how.stop, fields.count_or("stop", 0));
  return TokenDecoder(std::move(how));
}

Result<TokenDecoder> parse_one_decoder(const JsonObject& fields) {
  BALLAST_TRY(const std::string type, fields.text("type"));
  if (type == "ByteLevel") return TokenDecoder(DecodeBytes{});
  if (type == "ByteFallback") return TokenDecoder(DecodeByteTokens{});
  if (type == "Fuse") return TokenDecoder(DecodeFuse{});
  if (type == "WordPiece") return parse_word_piece_decoder(fields);
  if (type == "Metaspace") return parse_metaspace_decoder(fields);
  if (type == "CTC") return parse_ctc_decoder(fields);
  if (type == "Strip") return parse_strip_decoder(fields);
  if (type == "BPEDecoder") {
    BALLAST_TRY(std::string suffix, fields.text_or("suffix", "</w>"));
    return TokenDecoder(DecodeSuffix{std::move(suffix)});
  }
  if (type == "Replace") {
    BALLAST_TRY(TextPattern pattern, parse_text_pattern(fields));
    BALLAST_TRY(std::string content, fields.text("content"));
    return TokenDecoder(DecodeReplace{std::move(pattern), std::move(content)});
  }
  return fields.unsupported(fmt::format("decoder \"{}\" is not known", type));
}

template <typename Stage>
Result<std::vector<Stage>> parse_stages(std::string_view json, std::string_view key, const std::string& where,
                                        Result<Stage> (*parse_one)(const JsonObject&)) {
  std::vector<Stage> stages;
  BALLAST_TRY(const auto members, flatten_sequence(json, key, where));
  for (const JsonObject& fields : members) {
    BALLAST_TRY(Stage stage, parse_one(fields));
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace

Result<std::vector<Normalizer>> parse_normalizer(std::string_view json, const std::string& where) {
  return parse_stages<Normalizer>(json, "normalizers", where, parse_one_normalizer);
}

Result<std::vector<PreTokenizer>> parse_pre_tokenizer(std::string_view json, const std::string& where) {
  return parse_stages<PreTokenizer>(json, "pretokenizers", where, parse_one_pre_tokenizer);
}

Result<std::vector<TokenDecoder>> parse_token_decoder(std::string_view json, const std::string& where) {
  return parse_stages<TokenDecoder>(json, "decoders", where, parse_one_decoder);
}

}  // namespace ballast
