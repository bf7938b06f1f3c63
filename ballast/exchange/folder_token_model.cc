// The "model" of tokenizer.json: which texts are tokens, and how they are put together.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/exchange/folder_tokenizer.h"

namespace ballast {

namespace {

// No token of a real vocabulary is longer; trying every way to cut one costs the square of its length.
constexpr size_t kLongestToken = 4096;

int32_t type_of(const GgufVocabulary& v, size_t id) {
  return v.token_types.empty() ? int32_t{GgufVocabulary::kNormal} : v.token_types[id];
}

// What llama.cpp's converter puts where a model has more rows than its tokenizer has tokens.
bool is_filler(const GgufVocabulary& v, size_t id) {
  return type_of(v, id) == GgufVocabulary::kUnused && v.tokens[id] == fmt::format("[PAD{}]", id);
}

// {"text": id, ...}, each text once: of two tokens with one text only the first can be written.
class TokenTableWriter {
 public:
  explicit TokenTableWriter(const FolderTokenizer& tokenizer) : t_(tokenizer) {}

  template <typename Spell>
  Status write(JsonWriter& json, const Spell& spell) {
    const std::vector<std::string>& tokens = t_.vocabulary.tokens;
    std::unordered_set<std::string> written;
    json.key("vocab").begin_object();
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (is_filler(t_.vocabulary, i)) continue;
      std::string text = spell(i);
      if (!is_valid_utf8(text)) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: token {} is no UTF-8, which tokenizer.json cannot hold", t_.where, i));
      }
      if (!written.insert(text).second) continue;
      json.key(text).number(i);
    }
    json.end_object();
    return {};
  }

 private:
  const FolderTokenizer& t_;
};

void begin_bpe(JsonWriter& json, std::string_view unknown, bool byte_fallback, bool ignore_merges) {
  json.begin_object().key("type").string("BPE");
  json.key("dropout").null();
  json.key("unk_token");
  if (unknown.empty()) json.null();
  else json.string(unknown);
  json.key("continuing_subword_prefix").null().key("end_of_word_suffix").null();
  json.key("fuse_unk").boolean(false).key("byte_fallback").boolean(byte_fallback);
  json.key("ignore_merges").boolean(ignore_merges);
}

void write_merge(JsonWriter& json, std::string_view left, std::string_view right) {
  json.begin_array().string(left).string(right).end_array();
}

// ---------------------------------------------------------------- byte-level BPE

Result<std::string> byte_level_model(const FolderTokenizer& t) {
  const GgufVocabulary& v = t.vocabulary;
  JsonWriter json;
  begin_bpe(json, "", false, gguf_pre_tokenizer(v.pre).whole_pieces);
  BALLAST_CHECK(TokenTableWriter(t).write(json, [&](size_t i) { return v.tokens[i]; }));
  const std::unordered_set<std::string_view> known(v.tokens.begin(), v.tokens.end());
  json.key("merges").begin_array();
  for (const std::string& merge : v.merges) {
    const size_t space = merge.find(' ', 1);  // describe_gguf_vocabulary has seen to it that there is one
    const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    // tokenizers refuses what llama.cpp passes over: merges that lead nowhere.
    if (known.contains(left) && known.contains(right) && known.contains(left + right)) write_merge(json, left, right);
  }
  json.end_array().end_object();
  return json.take();
}

// ---------------------------------------------------------------- SentencePiece's BPE

// Scores of tokens instead of a list of merges: every way to put a token together from two others is a merge, in the
// order of the scores.
class ScoredMerges {
 public:
  explicit ScoredMerges(const GgufVocabulary& v) : v_(v) {
    for (size_t i = 0; i < v.tokens.size(); ++i) {
      if (is_in_text(i)) in_text_.insert(v.tokens[i]);
    }
  }

  Status find(const std::string& where) {
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (!is_in_text(i)) continue;
      const std::string& token = v_.tokens[i];
      if (token.size() > kLongestToken) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: token {} has {} bytes, more than {}: no vocabulary has such tokens", where,
                                      i, token.size(), kLongestToken));
      }
      cut_everywhere(i, token);
    }
    // The best first; of ways to the same token that with the longer left side, as transformers orders them.
    std::ranges::stable_sort(merges_, [&](const Cut& a, const Cut& b) {
      const float left = score(a.token), right = score(b.token);
      return left != right ? left > right : a.token == b.token && a.at > b.at;
    });
    return {};
  }

  void write(JsonWriter& json) const {
    json.key("merges").begin_array();
    for (const Cut& cut : merges_) {
      const std::string_view token = v_.tokens[cut.token];
      write_merge(json, token.substr(0, cut.at), token.substr(cut.at));
    }
    json.end_array();
  }

 private:
  struct Cut {
    uint32_t token, at;
  };

  bool is_in_text(size_t i) const {
    const int32_t type = type_of(v_, i);
    return type != GgufVocabulary::kControl && type != GgufVocabulary::kUnknown && type != GgufVocabulary::kByte &&
           !is_filler(v_, i);
  }
  float score(uint32_t token) const { return v_.scores.empty() ? 0.0F : v_.scores[token]; }

  void cut_everywhere(size_t id, std::string_view token) {
    for (size_t at = 1; at < token.size(); ++at) {
      const bool inside = (static_cast<unsigned char>(token[at]) & 0xC0U) == 0x80U;  // of a character
      if (inside || !in_text_.contains(token.substr(0, at)) || !in_text_.contains(token.substr(at))) continue;
      merges_.push_back({static_cast<uint32_t>(id), static_cast<uint32_t>(at)});
    }
  }

  const GgufVocabulary& v_;
  std::unordered_set<std::string_view> in_text_;
  std::vector<Cut> merges_;
};

Result<std::string> scored_model(const FolderTokenizer& t) {
  const GgufVocabulary& v = t.vocabulary;
  const auto unknown = t.description.marks.unknown;
  JsonWriter json;
  begin_bpe(json, unknown ? v.tokens[*unknown] : "", true, false);
  BALLAST_CHECK(TokenTableWriter(t).write(json, [&](size_t i) { return v.tokens[i]; }));
  ScoredMerges merges(v);
  BALLAST_CHECK(merges.find(t.where));
  merges.write(json);
  json.end_object();
  return json.take();
}

// ---------------------------------------------------------------- WordPiece

// GGUF marks the beginning of a word, where BERT marks that one goes on.
std::string word_piece(std::string_view token) {
  constexpr std::string_view kBegin = "\u2581";
  if (token.starts_with(kBegin)) return std::string(token.substr(kBegin.size()));
  if (token.starts_with('[') && token.ends_with(']')) return std::string(token);
  return "##" + std::string(token);
}

Result<std::string> word_piece_model(const FolderTokenizer& t) {
  const GgufVocabulary& v = t.vocabulary;
  JsonWriter json;
  json.begin_object().key("type").string("WordPiece");
  json.key("unk_token").string(t.description.marks.unknown ? v.tokens[*t.description.marks.unknown] : "[UNK]");
  json.key("continuing_subword_prefix").string("##").key("max_input_chars_per_word").number(100);
  const auto spell = [&](size_t i) {
    const bool mark = type_of(v, i) == GgufVocabulary::kControl || type_of(v, i) == GgufVocabulary::kUnknown;
    return mark ? v.tokens[i] : word_piece(v.tokens[i]);
  };
  BALLAST_CHECK(TokenTableWriter(t).write(json, spell));
  json.end_object();
  return json.take();
}

}  // namespace

Result<std::string> folder_token_model(const FolderTokenizer& tokenizer) {
  const std::string& model = tokenizer.vocabulary.model;
  if (model == "gpt2") return byte_level_model(tokenizer);
  if (model == "llama") return scored_model(tokenizer);
  if (model == "bert") return word_piece_model(tokenizer);
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: its tokenizer is \"{}\"; gpt2, llama and bert can be written as tokenizer.json",
                                tokenizer.where, model));
}

}  // namespace ballast
