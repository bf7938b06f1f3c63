#include "ballast/text/tokenizer/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ballast/text/tokenizer/tokenizer_file.h"

namespace ballast {

namespace {

constexpr std::string_view kKeys = "tokenizer.ggml.";

// ---------------------------------------------------------------- reading

const MetaValue* find_entry(const Description& description, std::string_view key) {
  for (const MetaEntry& entry : description.metadata) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

const MetaValue* find_meta(const Description& description, std::string_view name) {
  return find_entry(description, fmt::format("{}{}", kKeys, name));
}

class GgufKeys {
 public:
  GgufKeys(const Description& description, const std::string& where) : description_(description), where_(where) {}

  Result<const MetaArray*> array(std::string_view name) const {
    const MetaValue* value = find_meta(description_, name);
    if (value == nullptr) return static_cast<const MetaArray*>(nullptr);
    const auto* array = std::get_if<MetaArray>(value);
    if (array == nullptr) return wrong(name, "a list");
    return array;
  }

  Result<std::vector<std::string>> texts(std::string_view name) const {
    std::vector<std::string> out;
    BALLAST_TRY(const MetaArray* list, array(name));
    if (list == nullptr) return out;
    if (list->element() != MetaType::kText) return wrong(name, "a list of texts");
    for (const std::string_view text : list->texts()) out.emplace_back(text);
    return out;
  }

  template <typename T>
  Result<std::vector<T>> numbers(std::string_view name) const {
    std::vector<T> out;
    BALLAST_TRY(const MetaArray* list, array(name));
    if (list == nullptr) return out;
    for (const double number : list->numbers()) {
      if (!std::isfinite(number) || std::abs(number) > 1e9) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("{}: {}{} holds {}, which is no score", where_, kKeys, name, number));
      }
      out.push_back(static_cast<T>(number));
    }
    if (out.size() != list->size()) return wrong(name, "a list of numbers");
    return out;
  }

  Result<std::string> text(std::string_view name) const {
    const MetaValue* value = find_meta(description_, name);
    if (value == nullptr) return std::string();
    const auto* found = std::get_if<std::string>(value);
    if (found == nullptr) return wrong(name, "a text");
    return *found;
  }

  std::optional<bool> flag(std::string_view name) const {
    const MetaValue* value = find_meta(description_, name);
    const auto* found = value != nullptr ? std::get_if<bool>(value) : nullptr;
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }

  // Ids beyond the vocabulary count as absent, as llama.cpp has it.
  std::optional<TokenId> id(std::string_view name, size_t tokens) const {
    const MetaValue* value = find_meta(description_, name);
    if (value == nullptr) return std::nullopt;
    uint64_t number = UINT64_MAX;
    if (const auto* u = std::get_if<uint64_t>(value)) number = *u;
    else if (const auto* i = std::get_if<int64_t>(value); i != nullptr && *i >= 0) number = static_cast<uint64_t>(*i);
    return number < tokens ? std::optional(static_cast<TokenId>(number)) : std::nullopt;
  }

 private:
  Error wrong(std::string_view name, std::string_view wanted) const {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}{} is not {}", where_, kKeys, name, wanted));
  }

  const Description& description_;
  const std::string& where_;
};

// A list of another length than the tokens would give wrong tokens to every id behind the gap.
Status check_lengths(const GgufVocabulary& vocabulary, const std::string& where) {
  const size_t tokens = vocabulary.tokens.size();
  for (const auto& [name, size] :
       {std::pair{"scores", vocabulary.scores.size()}, std::pair{"token_type", vocabulary.token_types.size()}}) {
    if (size == 0 || size == tokens) continue;
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} tokens but {} of {}{}: the file is damaged", where,
                                                       tokens, size, kKeys, name));
  }
  return {};
}

// ---------------------------------------------------------------- what all models share

// Marks of the end of a turn that files do not always list as such.
bool is_turn_end(std::string_view text) {
  constexpr std::string_view kEnds[] = {"</s>",
                                        "<eos>",
                                        "[EOS]",
                                        "[EOT]",
                                        "<EOT>",
                                        "_<EOT>",
                                        "<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<end_of_turn>",
                                        "<turn|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|endoftext|>",
                                        "<|eom_id|>",
                                        "<|calls|>",
                                        "<|end_of_text|>",
                                        "<|flush|>",
                                        "<end_of_utterance>",
                                        "<｜end▁of▁sentence｜>"};
  return std::ranges::find(kEnds, text) != std::end(kEnds);
}

class GgufDescriber {
 public:
  GgufDescriber(GgufVocabulary vocabulary, const std::string& where) : v_(std::move(vocabulary)), where_(where) {}

  Result<TokenizerDescription> describe() {
    if (v_.model == "llama") BALLAST_CHECK(describe_llama());
    else if (v_.model == "gpt2") BALLAST_CHECK(describe_gpt2());
    else if (v_.model == "gemma4") BALLAST_CHECK(describe_gemma4());
    else if (v_.model == "bert") BALLAST_CHECK(describe_bert());
    else if (v_.model == "t5") BALLAST_CHECK(describe_t5());
    else
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{}: its tokenizer is \"{}\"; llama, gpt2, gemma4, bert and t5 are known", where_, v_.model));
    add_added();
    return std::move(d_);
  }

 private:
  int32_t type(size_t id) const {
    return v_.token_types.empty() ? int32_t{GgufVocabulary::kNormal} : v_.token_types[id];
  }
  bool is_mark(size_t id) const { return type(id) == GgufVocabulary::kControl || type(id) == GgufVocabulary::kUnknown; }
  std::string text_of(std::optional<TokenId> id) const { return id ? v_.tokens[*id] : std::string(); }

  bool has_token(std::string_view text) const { return std::ranges::find(v_.tokens, text) != v_.tokens.end(); }

  void set_default(std::optional<TokenId>& mark, TokenId id) const {
    if (!mark && id < v_.tokens.size()) mark = id;
  }

  // Marks and what users defined are found in the text as it is.
  void add_added() {
    TokenMarks& marks = v_.marks;
    // In vocabularies with these two, <|end|> ends a message, not what the model has to say.
    const bool goes_on = has_token("<|return|>") && has_token("<|call|>");
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      // Gemma 4 has a plain </s>.
      const bool turn_end = is_turn_end(v_.tokens[i]) && !(v_.model == "gemma4" && v_.tokens[i] == "</s>");
      const bool special = is_mark(i) || turn_end;
      if (turn_end && !(goes_on && v_.tokens[i] == "<|end|>")) marks.stops.push_back(id);
      if (!special && type(i) != GgufVocabulary::kUserDefined) continue;
      AddedToken token;
      token.text = v_.tokens[i];
      token.id = id;
      token.special = special;
      set_strips(token);
      d_.added.push_back(std::move(token));
    }
    if (marks.end) marks.stops.push_back(*marks.end);
    std::ranges::sort(marks.stops);
    marks.stops.erase(std::unique(marks.stops.begin(), marks.stops.end()), marks.stops.end());
    d_.marks = std::move(marks);
  }

  // What tokens swallow white space is not in the file; these are the models that llama.cpp knows of.
  void set_strips(AddedToken& token) const {
    std::string name = v_.name;
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto has = [](std::string_view text, std::string_view part) { return text.find(part) != text.npos; };
    if (has(v_.pre, "jina-v2-") || v_.architecture == "nomic-bert-moe" || v_.architecture == "jina-bert-v3") {
      token.strip_left = token.text == "<mask>";
    } else if (has(name, "phi-3") || has(name, "phi3")) {
      token.strip_right = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
    } else if (has(name, "modern-bert")) {
      token.strip_left = token.text == "[MASK]";
    }
  }

  Status add_around(bool begin, bool end) {
    using Part = PostProcessor::Part;
    begin = v_.add_begin.value_or(begin);
    end = v_.add_end.value_or(end);
    if ((begin && !v_.marks.begin) || (end && !v_.marks.end)) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: it wants a mark for the {} of a text but has none",
                                                         where_, begin && !v_.marks.begin ? "begin" : "end"));
    }
    const auto around = [&](Part::Kind kind, std::vector<Part>& parts) {
      if (begin) parts.push_back({Part::Kind::kTokens, 0, {*v_.marks.begin}});
      parts.push_back({kind, 0, {}});
      if (end) parts.push_back({Part::Kind::kTokens, 0, {*v_.marks.end}});
    };
    d_.post_processor.single.clear();
    d_.post_processor.pair.clear();
    around(Part::Kind::kFirstText, d_.post_processor.single);
    around(Part::Kind::kFirstText, d_.post_processor.pair);
    around(Part::Kind::kSecondText, d_.post_processor.pair);
    return {};
  }

  // ---------------------------------------------------------------- each model

  // SentencePiece's byte pairs: scores instead of merges, bytes for what is unknown.
  Status describe_llama() {
    set_default(v_.marks.begin, 1);
    set_default(v_.marks.end, 2);
    set_default(v_.marks.unknown, 0);
    CharPairVocabulary pairs;
    pairs.byte_fallback = true;
    pairs.unknown = text_of(v_.marks.unknown);
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      pairs.tokens.push_back({v_.tokens[i], static_cast<TokenId>(i)});
      const bool in_text = !is_mark(i) && type(i) != GgufVocabulary::kByte;
      const float score = v_.scores.empty() ? 0.0F : v_.scores[i];
      pairs.scores.push_back(in_text ? std::optional(score) : std::nullopt);
    }
    const bool prefix = v_.add_space_prefix.value_or(true);
    d_.normalizers = {ReplaceText{TextPattern::exact(" "), "\u2581"}};
    if (prefix) d_.normalizers.push_back(PrependText{"\u2581"});
    d_.decoders = {DecodeReplace{TextPattern::exact("\u2581"), " "}, DecodeByteTokens{}, DecodeFuse{}};
    if (prefix) d_.decoders.push_back(DecodeStrip{.character = " ", .start = 1, .stop = 0});
    d_.model = std::move(pairs);
    return add_around(true, false);
  }

  Result<CharPairVocabulary> read_pairs() {
    CharPairVocabulary pairs;
    std::unordered_set<std::string_view> known;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      known.insert(v_.tokens[i]);
      pairs.tokens.push_back({v_.tokens[i], static_cast<TokenId>(i)});
    }
    for (size_t i = 0; i < v_.merges.size(); ++i) {
      const size_t space = v_.merges[i].find(' ', 1);
      if (space == std::string::npos) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("{}: merge {}, \"{}\", has no space", where_, i, v_.merges[i]));
      }
      std::string left = v_.merges[i].substr(0, space);
      std::string right = v_.merges[i].substr(space + 1);
      // llama.cpp tolerates merges that lead nowhere.
      if (known.contains(left) && known.contains(right) && known.contains(left + right)) {
        pairs.merges.push_back({std::move(left), std::move(right)});
      }
    }
    return pairs;
  }

  Status describe_gpt2() {
    set_default(v_.marks.begin, 11);
    set_default(v_.marks.end, 11);
    BALLAST_TRY(CharPairVocabulary pairs, read_pairs());
    const GgufPreTokenizer pre = gguf_pre_tokenizer(v_.pre);
    if (!pre.known) {
      d_.notes.push_back(v_.pre.empty()
                             ? "the file does not say how its tokenizer cuts text; llama.cpp's default is used"
                             : fmt::format("pre-tokenizer \"{}\" is not known; llama.cpp's default is used, and some "
                                           "tokens may differ from those the model was taught",
                                           v_.pre));
    }
    using WholePieces = CharPairVocabulary::WholePieces;
    pairs.whole_pieces = pre.whole_pieces ? WholePieces::kAlways : WholePieces::kNever;
    BALLAST_CHECK(add_expressions(pre));
    // Marks are in no alphabet; only what remains must be.
    TokenModel model = as_byte_pairs(std::move(pairs));
    const bool of_bytes = std::holds_alternative<BytePairVocabulary>(model);
    d_.pre_tokenizers.push_back(SplitBytes{.add_prefix_space = false, .cut = false, .spell = !of_bytes});
    if (!of_bytes) d_.decoders = {DecodeBytes{}};
    d_.model = std::move(model);
    d_.replace_broken = true;
    return add_around(pre.add_begin, false);
  }

  Status add_expressions(const GgufPreTokenizer& pre) {
    for (const std::string& expression : pre.expressions) {
      BALLAST_TRY(TextPattern pattern, TextPattern::expression(expression));
      d_.pre_tokenizers.push_back(SplitAtPattern{std::move(pattern), SplitBehavior::kIsolated, false});
    }
    return {};
  }

  // Byte pairs over characters, with spaces as U+2581 and lines apart.
  Status describe_gemma4() {
    BALLAST_TRY(CharPairVocabulary pairs, read_pairs());
    pairs.byte_fallback = true;
    pairs.unknown = text_of(v_.marks.unknown);
    pairs.whole_pieces = CharPairVocabulary::WholePieces::kLineBreaks;
    BALLAST_CHECK(add_expressions(gguf_pre_tokenizer("gemma4")));
    d_.normalizers = {ReplaceText{TextPattern::exact(" "), "\u2581"}};
    d_.decoders = {DecodeReplace{TextPattern::exact("\u2581"), " "}, DecodeByteTokens{}, DecodeFuse{}};
    d_.model = std::move(pairs);
    d_.replace_broken = true;
    v_.add_begin = true;  // as llama.cpp insists
    return add_around(true, false);
  }

  // WordPiece whose tokens have U+2581 at the beginning of a word instead of ## behind it.
  Status describe_bert() {
    if (!v_.marks.begin && v_.marks.classification) v_.marks.begin = v_.marks.classification;
    set_default(v_.marks.begin, 101);
    set_default(v_.marks.unknown, 100);
    set_default(v_.marks.separator, 102);
    set_default(v_.marks.padding, 0);
    if (!v_.marks.begin || !v_.marks.separator || !v_.marks.unknown) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: BERT's marks are not in its vocabulary", where_));
    }
    WordVocabulary words;
    words.continuing_prefix.clear();
    words.beginning_prefix = "\u2581";
    words.unknown = text_of(v_.marks.unknown);
    for (size_t i = 0; i < v_.tokens.size(); ++i) words.tokens.push_back({v_.tokens[i], static_cast<TokenId>(i)});
    d_.model = std::move(words);
    BertText text;
    text.lower_case = v_.lower_case.value_or(true);
    text.strip_accents = v_.strip_accents.value_or(text.lower_case);
    text.as_llama_cpp = true;
    d_.normalizers = {text};
    d_.pre_tokenizers = {SplitBert{}};
    d_.decoders = {DecodeReplace{TextPattern::exact("\u2581"), " "}, DecodeFuse{},
                   DecodeStrip{.character = " ", .start = 1, .stop = 0}};
    add_cls_and_sep();
    return {};
  }

  void add_cls_and_sep() {
    using Part = PostProcessor::Part;
    const Part cls{Part::Kind::kTokens, 0, {*v_.marks.begin}};
    const Part sep{Part::Kind::kTokens, 0, {*v_.marks.separator}};
    const Part end{Part::Kind::kTokens, 1, {*v_.marks.separator}};
    d_.post_processor.single = {cls, {Part::Kind::kFirstText, 0, {}}, sep};
    d_.post_processor.pair = {cls, {Part::Kind::kFirstText, 0, {}}, sep, {Part::Kind::kSecondText, 1, {}}, end};
  }

  // SentencePiece's unigrams.
  Status describe_t5() {
    set_default(v_.marks.end, 1);
    set_default(v_.marks.unknown, 2);
    set_default(v_.marks.padding, 0);
    UnigramVocabulary model;
    std::vector<PhraseFinder::Phrase> kept;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      const bool defined = type(i) == GgufVocabulary::kUserDefined;
      const bool normal = type(i) == GgufVocabulary::kNormal;
      const double score = defined || v_.scores.empty() ? 0 : v_.scores[i];
      if (defined) kept.push_back({v_.tokens[i], static_cast<uint32_t>(i)});
      model.tokens.push_back({v_.tokens[i], static_cast<TokenId>(i), score,
                              normal || defined || type(i) == GgufVocabulary::kUnused, normal});
    }
    model.unknown = v_.marks.unknown;
    d_.model = std::move(model);
    SentencePieceText text;
    if (!v_.charsmap.empty()) {
      auto map = Charsmap::parse(v_.charsmap);
      if (!map) return std::move(map).error().with_context(where_);
      text.map = std::move(*map);
    }
    text.add_prefix = v_.add_space_prefix.value_or(false);
    text.remove_extra_spaces = v_.remove_extra_spaces.value_or(false);
    if (!kept.empty()) text.kept = std::make_shared<PhraseFinder>(kept, PhraseFinder::Reading::kBackward);
    d_.normalizers = {std::move(text)};
    d_.decoders = {DecodeReplace{TextPattern::exact("\u2581"), " "}, DecodeByteTokens{}, DecodeFuse{}};
    if (v_.add_space_prefix.value_or(false))
      d_.decoders.push_back(DecodeStrip{.character = " ", .start = 1, .stop = 0});
    return add_around(false, true);
  }

  GgufVocabulary v_;
  const std::string& where_;
  TokenizerDescription d_;
};

}  // namespace

bool has_gguf_vocabulary(const Description& description) {
  const MetaValue* model = find_meta(description, "model");
  const auto* name = model != nullptr ? std::get_if<std::string>(model) : nullptr;
  return model != nullptr && !(name != nullptr && (*name == "none" || *name == "no_vocab"));
}

Result<GgufVocabulary> read_gguf_vocabulary(const Description& description, const std::string& where) {
  if (!has_gguf_vocabulary(description)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: it holds no tokenizer ({}model is absent or \"none\")", where, kKeys));
  }
  const GgufKeys keys(description, where);
  GgufVocabulary v;
  const auto general = [&](std::string_view key) {
    const MetaValue* value = find_entry(description, key);
    const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
    return text != nullptr ? *text : std::string();
  };
  v.name = general("general.name");
  v.architecture = general("general.architecture");
  BALLAST_TRY(v.model, keys.text("model"));
  BALLAST_TRY(v.pre, keys.text("pre"));
  BALLAST_TRY(v.tokens, keys.texts("tokens"));
  BALLAST_TRY(v.scores, keys.numbers<float>("scores"));
  BALLAST_TRY(v.token_types, keys.numbers<int32_t>("token_type"));
  BALLAST_TRY(v.merges, keys.texts("merges"));
  BALLAST_TRY(const std::vector<int32_t> charsmap, keys.numbers<int32_t>("precompiled_charsmap"));
  for (const int32_t byte : charsmap) v.charsmap += static_cast<char>(byte);
  if (v.tokens.empty()) return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}tokens is empty", where, kKeys));
  BALLAST_CHECK(check_lengths(v, where));
  // A vocabulary of single bytes has none to list; one that does not list them was cut short.
  const bool merges_pairs = v.model == "gpt2" || v.model == "gemma4";
  if (merges_pairs && find_meta(description, "merges") == nullptr)
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: it has no {}merges", where, kKeys));
  const size_t count = v.tokens.size();
  v.marks.begin = keys.id("bos_token_id", count);
  v.marks.end = keys.id("eos_token_id", count);
  v.marks.unknown = keys.id("unknown_token_id", count);
  v.marks.separator = keys.id("seperator_token_id", count);  // spelled like this
  v.marks.padding = keys.id("padding_token_id", count);
  v.marks.mask = keys.id("mask_token_id", count);
  v.marks.classification = keys.id("cls_token_id", count);
  for (const char* name : {"eot_token_id", "eom_token_id"}) {
    if (const auto id = keys.id(name, count)) v.marks.stops.push_back(*id);
  }
  v.add_begin = keys.flag("add_bos_token");
  v.add_end = keys.flag("add_eos_token");
  v.add_space_prefix = keys.flag("add_space_prefix");
  v.remove_extra_spaces = keys.flag("remove_extra_whitespaces");
  v.lower_case = keys.flag("normalizer.lowercase");
  v.strip_accents = keys.flag("normalizer.strip_accents");
  return v;
}

Result<TokenizerDescription> describe_gguf_vocabulary(GgufVocabulary vocabulary, const std::string& where) {
  return GgufDescriber(std::move(vocabulary), where).describe();
}

}  // namespace ballast
