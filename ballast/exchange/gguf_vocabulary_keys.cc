#include "ballast/exchange/gguf_vocabulary_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ballast/exchange/gguf_special_tokens.h"
#include "ballast/text/find_chat_template.h"
#include "ballast/text/tokenizer/gguf_vocabulary.h"
#include "ballast/text/tokenizer/sentencepiece_file.h"
#include "ballast/text/tokenizer/tokenizer_file.h"
#include "ballast/text/tokenizer/tokenizer_json.h"

namespace ballast {

namespace {

constexpr std::string_view kSpace = "\u2581";  // a space, in SentencePiece's texts
constexpr float kUnusedScore = -10'000;
constexpr float kAddedScore = -1000;

std::string with_plain_spaces(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t at = std::min(text.find(kSpace), text.size());
    plain += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    plain += ' ';
    text.remove_prefix(kSpace.size());
  }
  return plain;
}

// Marks that files do not always call special.
bool looks_special(std::string_view text) {
  const auto between = [&](std::string_view front, std::string_view back) {
    return text.size() >= front.size() + back.size() && text.starts_with(front) && text.ends_with(back);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || between("<|", "|>") ||
         between("<｜", "｜>") || between("<unused", ">");
}

bool is_byte_token(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return text.size() == 6 && text.starts_with("<0x") && is_hex(text[3]) && is_hex(text[4]) && text[5] == '>';
}

class VocabularyWriter {
 public:
  VocabularyWriter(const GgufVocabularyRequest& request, std::vector<std::string>& notes)
      : request_(request), files_(request.files), notes_(notes) {}

  Result<std::vector<MetaEntry>> write() {
    BALLAST_CHECK(read_added_tokens());
    if (files_.sentencepiece && !is_word_piece()) BALLAST_CHECK(write_sentencepiece());
    else if (files_.tokenizer_json) BALLAST_CHECK(write_document());
    else write_nothing();
    return std::move(entries_);
  }

 private:
  using Type = GgufVocabulary::TokenType;

  // ---- entries

  void put(std::string_view key, MetaValue value) {
    entries_.push_back({fmt::format("tokenizer.ggml.{}", key), std::move(value)});
  }

  void put_or_replace(std::string_view key, MetaValue value) {
    const std::string name = fmt::format("tokenizer.ggml.{}", key);
    const auto found = std::ranges::find(entries_, name, &MetaEntry::key);
    if (found != entries_.end()) found->value = std::move(value);
    else entries_.push_back({name, std::move(value)});
  }

  void put_texts(std::string_view key, const std::vector<std::string>& texts) {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    put(key, MetaArray::of_texts(views));
  }

  void put_lists(std::string model, std::string pre) {
    put("model", std::move(model));
    put("pre", std::move(pre));
    put_texts("tokens", tokens_);
    if (!scores_.empty()) put("scores", MetaArray::of(std::span<const float>(scores_)));
    put("token_type", MetaArray::of(std::span<const int32_t>(types_)));
  }

  // ---- without a tokenizer

  void write_nothing() {
    put("model", "none");
    entries_.push_back({fmt::format("{}.vocab_size", request_.architecture), request_.vocab});
    notes_.push_back("there is no tokenizer beside the model: the file takes token ids, and no text");
  }

  // ---- added tokens

  Status read_added_tokens() {
    if (!files_.tokenizer_json) return {};
    const std::string where = files_.name_of("tokenizer.json");
    BALLAST_TRY(const JsonObject fields, JsonObject::parse(*files_.tokenizer_json, where, kStrictRules));
    if (const auto raw = fields.find("added_tokens")) BALLAST_CHECK(assign(listed_, parse_added_tokens(*raw, where)));
    added_ = listed_;
    return {};
  }

  Error too_many(uint64_t id) const {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: the tokenizer has a token {}, and the model only {} rows for tokens",
                                  files_.folder, id, request_.vocab));
  }

  // Tokens that only fill up the embedding.
  void pad() {
    for (uint64_t id = 0; id < request_.vocab; ++id) {
      tokens_.push_back(fmt::format("[PAD{}]", id));
      types_.push_back(Type::kUnused);
    }
  }

  Status set(uint64_t id, std::string text, int32_t type) {
    if (id >= tokens_.size()) return too_many(id);
    tokens_[id] = std::move(text);
    types_[id] = type;
    return {};
  }

  Status set_added_tokens() {
    for (const AddedToken& token : added_) {
      const bool is_mark = token.special || looks_special(token.text);
      BALLAST_CHECK(set(token.id, is_mark ? token.text : with_plain_spaces(token.text),
                        is_mark ? Type::kControl : Type::kUserDefined));
      if (!scores_.empty()) scores_[token.id] = kAddedScore;
    }
    return {};
  }

  // ---- tokenizer.json

  bool is_word_piece() const { return request_.architecture == "bert"; }

  Status write_document() {
    const std::string where = files_.name_of("tokenizer.json");
    BALLAST_TRY(const JsonObject fields, JsonObject::parse(*files_.tokenizer_json, where, kStrictRules));
    const auto raw = fields.find("model");
    if (!raw) return fields.corrupt("there is no \"model\"");
    BALLAST_TRY(const TokenModel model, parse_token_model(*raw, where + ": model"));
    if (const auto* pairs = std::get_if<CharPairVocabulary>(&model)) {
      return pairs->byte_fallback ? write_char_pairs(*pairs, fields) : write_byte_pairs(*pairs, fields);
    }
    if (const auto* words = std::get_if<WordVocabulary>(&model); words != nullptr && !words->whole_words) {
      return write_words(*words);
    }
    return fields.unsupported(
        "llama.cpp has byte pairs for models that write and WordPiece for BERT, and this tokenizer is another kind");
  }

  Status write_byte_pairs(const CharPairVocabulary& pairs, const JsonObject& fields) {
    BALLAST_TRY(std::string pre, pre_tokenizer_name(fields, pairs));
    pad();
    for (const auto& [text, id] : pairs.tokens) BALLAST_CHECK(set(id, text, Type::kNormal));
    BALLAST_CHECK(set_added_tokens());
    put_space_prefix();
    put_lists("gpt2", std::move(pre));
    put_merges(pairs.merges);
    return put_special_tokens();
  }

  void put_merges(const std::vector<CharPairVocabulary::Merge>& merges) {
    const auto spelled = [](std::string text) {  // a space would cut the line
      for (size_t at = 0; (at = text.find(' ', at)) != std::string::npos; at += 2) text.replace(at, 1, "\u0120");
      return text;
    };
    std::vector<std::string> lines;
    for (const auto& [left, right] : merges) lines.push_back(spelled(left) + " " + spelled(right));
    put_texts("merges", lines);
  }

  // The expressions that a text is cut by, one after the other, as llama.cpp's names stand for them.
  Result<std::string> pre_tokenizer_name(const JsonObject& fields, const CharPairVocabulary& pairs) const {
    std::vector<std::string> expressions;
    if (const auto raw = fields.find("pre_tokenizer")) {
      BALLAST_TRY(const auto stages, flatten_sequence(*raw, "pretokenizers", fields.where()));
      for (const JsonObject& stage : stages) BALLAST_CHECK(add_expression(stage, expressions));
    }
    const bool whole = pairs.whole_pieces == CharPairVocabulary::WholePieces::kAlways;
    if (auto name = gguf_pre_tokenizer_name(expressions, whole)) return *std::move(name);
    return fields.unsupported(fmt::format("llama.cpp has no name for a tokenizer that cuts text by \"{}\"",
                                          fmt::join(expressions, "\", \"")));
  }

  static Status add_expression(const JsonObject& stage, std::vector<std::string>& expressions) {
    BALLAST_TRY(const std::string type, stage.text("type"));
    if (type == "ByteLevel") {
      BALLAST_TRY(const bool prefix, stage.truth_or("add_prefix_space", true));
      BALLAST_TRY(const bool cuts, stage.truth_or("use_regex", true));
      if (prefix) return stage.unsupported("llama.cpp puts no space in front of texts of such a tokenizer");
      if (cuts) expressions.push_back(gguf_pre_tokenizer("gpt-2").expressions.front());
      return {};
    }
    if (type == "Digits") {
      BALLAST_TRY(const bool individual, stage.truth_or("individual_digits", false));
      expressions.emplace_back(individual ? R"(\p{N})" : R"(\p{N}+)");
      return {};
    }
    if (type != "Split") return stage.unsupported(fmt::format("llama.cpp has no pre-tokenizer \"{}\"", type));
    BALLAST_TRY(const std::string behavior, stage.text("behavior"));
    BALLAST_TRY(const bool invert, stage.truth_or("invert", false));
    const bool keeps_matches = invert ? behavior == "Removed" || behavior == "Isolated" : behavior == "Isolated";
    const auto raw = stage.find("pattern");
    if (!keeps_matches || !raw) return stage.unsupported(fmt::format("llama.cpp does not split as \"{}\"", behavior));
    BALLAST_TRY(const JsonObject pattern, JsonObject::parse(*raw, stage.where(), kStrictRules));
    BALLAST_TRY(std::string expression, pattern.text("Regex"));
    expressions.push_back(std::move(expression));
    return {};
  }

  // ---- SentencePiece's byte pairs

  Status write_sentencepiece() {
    BALLAST_TRY(const auto pieces, read_sentencepiece_pairs(*files_.sentencepiece, files_.name_of("tokenizer.model")));
    pad();
    scores_.assign(tokens_.size(), kUnusedScore);
    for (size_t id = 0; id < std::min(pieces.size(), tokens_.size()); ++id) {
      const bool plain = pieces[id].type == Type::kUserDefined;  // as the converter has it
      BALLAST_CHECK(set(id, pieces[id].text, plain ? int32_t{Type::kNormal} : pieces[id].type));
      scores_[id] = pieces[id].score;
    }
    BALLAST_CHECK(read_added_decoder());
    std::erase_if(added_, [&](const AddedToken& token) { return token.id >= request_.vocab; });
    BALLAST_CHECK(set_added_tokens());
    return write_scored();
  }

  // What tokenizer_config.json lists counts more than what tokenizer.json does.
  Status read_added_decoder() {
    if (!files_.tokenizer_config) return {};
    const std::string where = files_.name_of("tokenizer_config.json");
    BALLAST_TRY(const JsonObject config, JsonObject::parse(*files_.tokenizer_config, where, kStrictRules));
    const auto raw = config.find("added_tokens_decoder");
    if (!raw) return {};
    added_.clear();
    JsonReader reader(*raw, where);
    BALLAST_CHECK(reader.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(key));
      if (!more) return {};
      BALLAST_TRY(const std::string_view value, reader.read_raw());
      BALLAST_TRY(const JsonObject fields, JsonObject::parse(value, where, kStrictRules));
      AddedToken token;
      JsonReader number(key, where);
      BALLAST_TRY(token.id, read_token_id(number));
      BALLAST_TRY(token.text, fields.text("content"));
      BALLAST_TRY(token.special, fields.truth_or("special", false));
      added_.push_back(std::move(token));
    }
  }

  // The same model in tokenizer.json: what is merged earlier scores higher.
  Status write_char_pairs(const CharPairVocabulary& pairs, const JsonObject& fields) {
    pad();
    scores_.assign(tokens_.size(), kUnusedScore);
    std::unordered_map<std::string_view, TokenId> ids;
    for (const auto& [text, id] : pairs.tokens) {
      ids[text] = id;
      const bool is_unknown = text == pairs.unknown;
      BALLAST_CHECK(set(id, text, is_unknown ? Type::kUnknown : is_byte_token(text) ? Type::kByte : Type::kNormal));
      scores_[id] = is_unknown || is_byte_token(text) ? 0.0F : kUnusedScore;
    }
    for (size_t rank = pairs.merges.size(); rank-- > 0;) {
      const auto found = ids.find(pairs.merges[rank].left + pairs.merges[rank].right);
      if (found != ids.end()) scores_[found->second] = -static_cast<float>(rank);
    }
    BALLAST_TRY(prefix_, adds_space_prefix(fields));
    BALLAST_CHECK(set_added_but_unknown(pairs.unknown));
    return write_scored();
  }

  // Whether a space is put in front of a text.
  static Result<bool> adds_space_prefix(const JsonObject& fields) {
    for (const auto& [part, members] :
         {std::pair{"normalizer", "normalizers"}, std::pair{"pre_tokenizer", "pretokenizers"}}) {
      const auto raw = fields.find(part);
      if (!raw) continue;
      BALLAST_TRY(const auto stages, flatten_sequence(*raw, members, fields.where()));
      for (const JsonObject& stage : stages) {
        BALLAST_TRY(const std::string type, stage.text("type"));
        if (type == "Prepend") return true;
        if (type != "Metaspace") continue;
        BALLAST_TRY(const std::string scheme, stage.text_or("prepend_scheme", "always"));
        BALLAST_TRY(const bool adds, stage.truth_or("add_prefix_space", true));
        return adds && scheme != "never";
      }
    }
    return false;
  }

  Status write_scored() {
    put_space_prefix();
    put_lists("llama", "default");
    BALLAST_CHECK(put_special_tokens());
    const bool is_gemma = request_.architecture.starts_with("gemma");
    if (is_gemma || (prefix_ && !*prefix_)) put_or_replace("add_space_prefix", false);
    return {};
  }

  // Added tokens on top of what the model has; of these the one for the unknown is no plain mark.
  Status set_added_but_unknown(std::string_view unknown) {
    BALLAST_CHECK(set_added_tokens());
    for (const AddedToken& token : added_) {
      if (token.text == unknown) types_[token.id] = Type::kUnknown;
    }
    return {};
  }

  // ---- WordPiece

  // Words begin with U+2581 there; what goes on, with nothing.
  Status write_words(const WordVocabulary& words) {
    if (!is_word_piece()) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: llama.cpp has WordPiece for BERT only", files_.name_of("tokenizer.json")));
    }
    pad();
    for (const auto& [text, id] : words.tokens) BALLAST_CHECK(set(id, text, Type::kNormal));
    BALLAST_CHECK(set_added_tokens());
    for (uint64_t id = 0; id < tokens_.size(); ++id) {
      std::string& token = tokens_[id];
      if (types_[id] == Type::kControl) continue;
      if (token.starts_with("##")) token.erase(0, 2);
      else token.insert(0, kSpace);
    }
    put_lists("bert", "bert-bge");
    return put_special_tokens();
  }

  // ---- marks

  // llama's class takes it over from tokenizer_config.json.
  void put_space_prefix() {
    constexpr std::string_view kLlamas[] = {"llama", "mistral3", "smollm3"};
    const bool is_llama = std::ranges::find(kLlamas, request_.architecture) != std::end(kLlamas);
    if (!files_.tokenizer_config || !is_llama) return;
    const auto fields = JsonObject::parse(*files_.tokenizer_config, "", kStrictRules);
    const auto raw = fields ? fields->find("add_prefix_space") : std::nullopt;
    if (raw == "true" || raw == "false") put("add_space_prefix", raw == "true");
  }

  Status put_special_tokens() {
    BALLAST_TRY(const GgufSpecialTokens special,
                find_gguf_special_tokens(files_, request_.config_json, listed_, tokens_.size()));
    constexpr std::pair<std::string_view, std::string_view> kIdKeys[] = {
        {"bos", "bos_token_id"},       {"eos", "eos_token_id"},     {"unk", "unknown_token_id"},
        {"sep", "seperator_token_id"}, {"pad", "padding_token_id"}, {"mask", "mask_token_id"},
        {"eot", "eot_token_id"},       {"eom", "eom_token_id"}};
    for (const auto& [type, id] : special.ids) {
      const auto* key = std::ranges::find(kIdKeys, type, &std::pair<std::string_view, std::string_view>::first);
      if (key != std::end(kIdKeys)) put(key->second, id);
    }
    for (const auto& [type, is_added] : special.added) {
      if (type == "bos" || type == "eos" || type == "sep") put(fmt::format("add_{}_token", type), is_added);
    }
    BALLAST_CHECK(put_template());
    if (special.lower_case) put("normalizer.lowercase", *special.lower_case);
    if (special.strip_accents) put("normalizer.strip_accents", *special.strip_accents);
    constexpr uint64_t kVocabWithoutBegin = 49'152;  // of small granite models, and of SmolLM
    if (request_.architecture == "llama" && request_.vocab == kVocabWithoutBegin)
      put_or_replace("add_bos_token", false);
    return {};
  }

  Status put_template() {
    BALLAST_TRY(const auto found, find_chat_template(files_.folder));
    if (found) entries_.push_back({"tokenizer.chat_template", found->text});
    return {};
  }

  const GgufVocabularyRequest& request_;
  const GgufSourceFiles& files_;
  std::vector<std::string>& notes_;
  std::vector<AddedToken> listed_;  // by tokenizer.json
  std::vector<AddedToken> added_;   // that the file marks as such
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::vector<float> scores_;
  std::optional<bool> prefix_;
  std::vector<MetaEntry> entries_;
};

}  // namespace

Result<std::vector<MetaEntry>> gguf_vocabulary_keys(const GgufVocabularyRequest& request,
                                                    std::vector<std::string>& notes) {
  return VocabularyWriter(request, notes).write();
}

}  // namespace ballast
