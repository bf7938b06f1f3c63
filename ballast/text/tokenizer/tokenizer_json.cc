#include "ballast/text/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ballast/base/utf8.h"

namespace ballast {

namespace {

constexpr size_t kMostNesting = 16;

Status flatten_into(std::string_view json, std::string_view key, const std::string& where, size_t depth,
                    std::vector<JsonObject>& out) {
  if (depth > kMostNesting) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: Sequences inside Sequences, more than {} deep", where, kMostNesting));
  }
  BALLAST_TRY(JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  BALLAST_TRY(const std::string type, fields.text("type"));
  if (type != "Sequence") {
    out.push_back(std::move(fields));
    return {};
  }
  if (!fields.has(key)) return fields.corrupt(fmt::format("a Sequence without \"{}\"", key));
  BALLAST_TRY(const auto members, fields.elements(key));
  for (const std::string_view member : members) BALLAST_CHECK(flatten_into(member, key, where, depth + 1, out));
  return {};
}

}  // namespace

Result<std::vector<JsonObject>> flatten_sequence(std::string_view json, std::string_view key,
                                                 const std::string& where) {
  std::vector<JsonObject> members;
  BALLAST_CHECK(flatten_into(json, key, where, 0, members));
  return members;
}

Result<TokenId> read_token_id(JsonReader& reader) {
  BALLAST_TRY(const uint64_t id, reader.read_u64());
  if (id > UINT32_MAX) return reader.error_here(fmt::format("token id {} does not fit 32 bits", id));
  return static_cast<TokenId>(id);
}

Result<TextPattern> parse_text_pattern(const JsonObject& fields) {
  const auto raw = fields.find("pattern");
  if (!raw) return fields.corrupt("there is no \"pattern\"");
  BALLAST_TRY(const JsonObject pattern, JsonObject::parse(*raw, fields.where(), kStrictRules));
  if (pattern.has("String")) {
    BALLAST_TRY(std::string text, pattern.text("String"));
    return TextPattern::exact(std::move(text));
  }
  if (!pattern.has("Regex")) return fields.unsupported("a pattern that is neither \"String\" nor \"Regex\"");
  BALLAST_TRY(const std::string expression, pattern.text("Regex"));
  auto compiled = TextPattern::expression(expression);
  if (!compiled) return std::move(compiled).error().with_context(fields.where());
  return compiled;
}

// ---------------------------------------------------------------- added tokens

Result<std::vector<AddedToken>> parse_added_tokens(std::string_view json, const std::string& where) {
  std::vector<AddedToken> tokens;
  BALLAST_TRY(const auto elements, json_elements(json, where));
  for (const std::string_view element : elements) {
    BALLAST_TRY(const JsonObject fields, JsonObject::parse(element, where, kStrictRules));
    AddedToken token;
    BALLAST_TRY(const uint64_t id, fields.count("id"));
    if (id > UINT32_MAX) return fields.corrupt(fmt::format("token id {} does not fit 32 bits", id));
    token.id = static_cast<TokenId>(id);
    BALLAST_TRY(token.text, fields.text("content"));
    BALLAST_TRY(token.special, fields.truth_or("special", false));
    BALLAST_TRY(token.strip_left, fields.truth_or("lstrip", false));
    BALLAST_TRY(token.strip_right, fields.truth_or("rstrip", false));
    BALLAST_TRY(token.single_word, fields.truth_or("single_word", false));
    BALLAST_TRY(token.normalized, fields.truth_or("normalized", !token.special));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// ---------------------------------------------------------------- what is put around a text

namespace {

using PostPart = PostProcessor::Part;
using TokenLists = std::unordered_map<std::string, std::vector<TokenId>>;

Result<TokenLists> parse_template_tokens(const JsonObject& fields) {
  TokenLists tokens;
  const auto raw = fields.find("special_tokens");
  if (!raw) return tokens;
  JsonReader reader(*raw, fields.where());
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) return tokens;
    BALLAST_TRY(const std::string_view value, reader.read_raw());
    BALLAST_TRY(const JsonObject entry, JsonObject::parse(value, fields.where(), kStrictRules));
    BALLAST_TRY(const auto ids, entry.elements("ids"));
    for (const std::string_view id : ids) {
      JsonReader number(id, fields.where());
      BALLAST_TRY(const TokenId token, read_token_id(number));
      tokens[key].push_back(token);
    }
  }
}

Result<PostPart> parse_template_part(std::string_view json, const TokenLists& tokens, const JsonObject& fields) {
  BALLAST_TRY(const JsonObject part, JsonObject::parse(json, fields.where(), kStrictRules));
  const bool is_text = part.has("Sequence");
  const auto raw = part.find(is_text ? "Sequence" : "SpecialToken");
  if (!raw) return fields.unsupported("a template with a part that is neither \"Sequence\" nor \"SpecialToken\"");
  BALLAST_TRY(const JsonObject entry, JsonObject::parse(*raw, fields.where(), kStrictRules));
  BALLAST_TRY(const std::string id, entry.text("id"));
  BALLAST_TRY(const uint64_t type, entry.count_or("type_id", 0));
  if (type > UINT32_MAX) return fields.corrupt(fmt::format("type id {} does not fit 32 bits", type));
  const auto type_id = static_cast<uint32_t>(type);
  if (is_text) return PostPart{id == "B" ? PostPart::Kind::kSecondText : PostPart::Kind::kFirstText, type_id, {}};
  const auto found = tokens.find(id);
  if (found == tokens.end()) return fields.corrupt(fmt::format("the template names \"{}\" but does not define it", id));
  return PostPart{PostPart::Kind::kTokens, type_id, found->second};
}

Result<std::vector<PostPart>> parse_template(const JsonObject& fields, std::string_view key, size_t texts,
                                             const TokenLists& tokens) {
  BALLAST_TRY(const auto elements, fields.elements(key));
  std::vector<PostPart> parts;
  std::array<size_t, 2> seen{};
  constexpr size_t kMostAdded = 65'536;
  size_t added = 0;
  for (const std::string_view element : elements) {
    BALLAST_TRY(PostPart part, parse_template_part(element, tokens, fields));
    if (part.kind != PostPart::Kind::kTokens) ++seen[part.kind == PostPart::Kind::kSecondText ? 1 : 0];
    added += part.tokens.size();
    if (added > kMostAdded) return fields.unsupported(fmt::format("it adds more than {} tokens to a text", kMostAdded));
    parts.push_back(std::move(part));
  }
  if (seen[0] != 1 || seen[1] != texts - 1) {
    return fields.unsupported(fmt::format("its template \"{}\" does not hold each text once", key));
  }
  return parts;
}

Result<PostProcessor> parse_template_processing(const JsonObject& fields) {
  PostProcessor processor;
  BALLAST_TRY(const TokenLists tokens, parse_template_tokens(fields));
  BALLAST_TRY(processor.single, parse_template(fields, "single", 1, tokens));
  if (fields.has("pair")) {
    BALLAST_TRY(processor.pair, parse_template(fields, "pair", 2, tokens));
  }
  return processor;
}

Result<PostPart> parse_mark(const JsonObject& fields, std::string_view key, uint32_t type_id) {
  BALLAST_TRY(const auto pair, fields.elements(key));
  if (pair.size() != 2) return fields.corrupt(fmt::format("\"{}\" must be a text and an id", key));
  JsonReader reader(pair[1], fields.where());
  BALLAST_TRY(const TokenId id, read_token_id(reader));
  return PostPart{PostPart::Kind::kTokens, type_id, {id}};
}

// BERT's and RoBERTa's: CLS A SEP and CLS A SEP B SEP; the latter with two SEPs between and no types.
Result<PostProcessor> parse_cls_sep(const JsonObject& fields, bool roberta) {
  BALLAST_TRY(const PostPart cls, parse_mark(fields, "cls", 0));
  BALLAST_TRY(const PostPart sep, parse_mark(fields, "sep", 0));
  const uint32_t second = roberta ? 0 : 1;
  const PostPart end{PostPart::Kind::kTokens, second, sep.tokens};
  PostProcessor processor;
  processor.single = {cls, {PostPart::Kind::kFirstText, 0, {}}, sep};
  processor.pair = {cls, {PostPart::Kind::kFirstText, 0, {}}, sep};
  if (roberta) processor.pair.push_back(sep);
  processor.pair.push_back({PostPart::Kind::kSecondText, second, {}});
  processor.pair.push_back(end);
  return processor;
}

}  // namespace

Result<PostProcessor> parse_post_processor(std::string_view json, const std::string& where) {
  PostProcessor processor;
  bool found = false, trims = false, behind_prefix = false;
  BALLAST_TRY(const auto members, flatten_sequence(json, "processors", where));
  for (const JsonObject& fields : members) {
    BALLAST_TRY(const std::string type, fields.text("type"));
    if (type == "ByteLevel" || type == "RobertaProcessing") {
      BALLAST_TRY(const bool trims_here, fields.truth_or("trim_offsets", true));
      if (trims_here) BALLAST_CHECK(assign(behind_prefix, fields.truth_or("add_prefix_space", true)));
      trims = trims || trims_here;
    }
    if (type == "ByteLevel") continue;  // only moves offsets
    if (found) return fields.unsupported("more than one post-processor that adds tokens");
    found = true;
    if (type == "TemplateProcessing") {
      BALLAST_TRY(processor, parse_template_processing(fields));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      BALLAST_TRY(processor, parse_cls_sep(fields, type == "RobertaProcessing"));
    } else {
      return fields.unsupported(fmt::format("post-processor \"{}\" is not known", type));
    }
  }
  processor.trim_offsets = trims;
  processor.trims_behind_prefix = behind_prefix;
  return processor;
}

// ---------------------------------------------------------------- lengths

Result<Truncation> parse_truncation(std::string_view json, const std::string& where) {
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  Truncation truncation;
  BALLAST_TRY(truncation.max_length, fields.count("max_length"));
  BALLAST_TRY(const uint64_t stride, fields.count_or("stride", 0));
  if (stride >= truncation.max_length && stride > 0) {
    return fields.corrupt(fmt::format("stride {} must be less than max_length {}", stride, truncation.max_length));
  }
  BALLAST_TRY(const std::string direction, fields.text_or("direction", "Right"));
  if (direction != "Left" && direction != "Right") return fields.unsupported("a direction but Left and Right");
  truncation.from_left = direction == "Left";
  BALLAST_TRY(const std::string strategy, fields.text_or("strategy", "LongestFirst"));
  if (strategy == "OnlyFirst") truncation.strategy = Truncation::Strategy::kOnlyFirst;
  else if (strategy == "OnlySecond") truncation.strategy = Truncation::Strategy::kOnlySecond;
  else if (strategy != "LongestFirst") return fields.unsupported(fmt::format("strategy \"{}\" is not known", strategy));
  return truncation;
}

Result<Padding> parse_padding(std::string_view json, const std::string& where) {
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  Padding padding;
  const auto strategy = fields.find("strategy");
  if (strategy && strategy->starts_with('{')) {
    BALLAST_TRY(const JsonObject fixed, JsonObject::parse(*strategy, where, kStrictRules));
    BALLAST_TRY(padding.fixed, fixed.count("Fixed"));
  }
  BALLAST_TRY(padding.multiple_of, fields.count_or("pad_to_multiple_of", 0));
  if (std::max(padding.fixed, padding.multiple_of) > Padding::kMostTokens) {
    return fields.unsupported(fmt::format("padding to {} tokens: more than {} make no sense",
                                          std::max(padding.fixed, padding.multiple_of), Padding::kMostTokens));
  }
  std::string direction;
  BALLAST_CHECK(assign(direction, fields.text_or("direction", "Right")));
  padding.on_left = direction == "Left";
  BALLAST_TRY(const uint64_t id, fields.count_or("pad_id", 0));
  BALLAST_TRY(const uint64_t type, fields.count_or("pad_type_id", 0));
  if (id > UINT32_MAX || type > UINT32_MAX)
    return fields.corrupt(fmt::format("pad id {} or type {} exceed 32 bits", id, type));
  padding.id = static_cast<TokenId>(id);
  padding.type_id = static_cast<uint32_t>(type);
  return padding;
}

}  // namespace ballast
