#include "ballast/exchange/folder_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/exchange/folder_json.h"

namespace ballast {

namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";
// What ByteLevel cuts with by itself.
constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string token_text(const FolderTokenizer& t, TokenId id) { return t.vocabulary.tokens[id]; }

// ---------------------------------------------------------------- the stages

void add_type(JsonWriter& json, std::string_view type) { json.begin_object().key("type").string(type); }

void add_replace(JsonWriter& json, std::string_view from, std::string_view to) {
  add_type(json, "Replace");
  json.key("pattern").begin_object().key("String").string(from).end_object().key("content").string(to).end_object();
}

void add_sentencepiece_normalizer(const GgufVocabulary& v, JsonWriter& json) {
  add_type(json, "Sequence");
  json.key("normalizers").begin_array();
  if (v.add_space_prefix.value_or(true)) {
    add_type(json, "Prepend");
    json.key("prepend").string(kSpaceMark).end_object();
  }
  add_replace(json, " ", kSpaceMark);
  json.end_array().end_object();
}

void add_bert_normalizer(const GgufVocabulary& v, JsonWriter& json) {
  const bool lower = v.lower_case.value_or(true);
  add_type(json, "BertNormalizer");
  json.key("clean_text").boolean(true).key("handle_chinese_chars").boolean(true);
  json.key("strip_accents").boolean(v.strip_accents.value_or(lower)).key("lowercase").boolean(lower).end_object();
}

void add_byte_level(JsonWriter& json, bool cut) {
  add_type(json, "ByteLevel");
  json.key("add_prefix_space").boolean(false).key("trim_offsets").boolean(true);
  json.key("use_regex").boolean(cut).end_object();
}

void add_split(JsonWriter& json, std::string_view expression) {
  add_type(json, "Split");
  json.key("pattern").begin_object().key("Regex").string(expression).end_object();
  json.key("behavior").string("Isolated").key("invert").boolean(false).end_object();
}

void add_byte_level_cuts(const GgufVocabulary& v, JsonWriter& json) {
  const std::vector<std::string> expressions = gguf_pre_tokenizer(v.pre).expressions;
  const bool ends_as_gpt2 = !expressions.empty() && expressions.back() == kGpt2Expression;
  add_type(json, "Sequence");
  json.key("pretokenizers").begin_array();
  for (size_t i = 0; i + (ends_as_gpt2 ? 1 : 0) < expressions.size(); ++i) add_split(json, expressions[i]);
  add_byte_level(json, ends_as_gpt2);
  json.end_array().end_object();
}

void add_sentencepiece_decoder(const GgufVocabulary& v, JsonWriter& json) {
  add_type(json, "Sequence");
  json.key("decoders").begin_array();
  add_replace(json, kSpaceMark, " ");
  add_type(json, "ByteFallback");
  json.end_object();
  add_type(json, "Fuse");
  json.end_object();
  if (v.add_space_prefix.value_or(true)) {
    add_type(json, "Strip");
    json.key("content").string(" ").key("start").number(1).key("stop").number(0).end_object();
  }
  json.end_array().end_object();
}

void add_stages(const GgufVocabulary& v, JsonWriter& json) {
  if (v.model == "bert") {
    add_bert_normalizer(v, json.key("normalizer"));
    add_type(json.key("pre_tokenizer"), "BertPreTokenizer");
    json.end_object();
    return;
  }
  if (v.model == "llama") {
    add_sentencepiece_normalizer(v, json.key("normalizer"));
    json.key("pre_tokenizer").null();
    return;
  }
  json.key("normalizer").null();
  add_byte_level_cuts(v, json.key("pre_tokenizer"));
}

void add_decoder(const GgufVocabulary& v, JsonWriter& json) {
  json.key("decoder");
  if (v.model == "llama") return add_sentencepiece_decoder(v, json);
  if (v.model == "gpt2") return add_byte_level(json, true);
  add_type(json, "WordPiece");
  json.key("prefix").string("##").key("cleanup").boolean(true).end_object();
}

// ---------------------------------------------------------------- tokens around a text

using Part = PostProcessor::Part;

class TemplateWriter {
 public:
  TemplateWriter(const FolderTokenizer& tokenizer, JsonWriter& json) : t_(tokenizer), json_(json) {}

  void write(const PostProcessor& how) {
    add_type(json_, "TemplateProcessing");
    write_parts("single", how.single);
    write_parts("pair", how.pair);
    json_.key("special_tokens").begin_object();
    for (const auto& [text, id] : used_) {
      json_.key(text).begin_object().key("id").string(text);
      json_.key("ids").begin_array().number(id).end_array();
      json_.key("tokens").begin_array().string(text).end_array().end_object();
    }
    json_.end_object().end_object();
  }

 private:
  void write_parts(std::string_view key, const std::vector<Part>& parts) {
    json_.key(key).begin_array();
    for (const Part& part : parts) {
      if (part.kind != Part::Kind::kTokens) {
        write_part("Sequence", part.kind == Part::Kind::kFirstText ? "A" : "B", part.type_id);
        continue;
      }
      for (const TokenId id : part.tokens) {
        used_[token_text(t_, id)] = id;
        write_part("SpecialToken", token_text(t_, id), part.type_id);
      }
    }
    json_.end_array();
  }

  void write_part(std::string_view kind, std::string_view id, uint32_t type_id) {
    json_.begin_object().key(kind).begin_object().key("id").string(id).key("type_id").number(type_id);
    json_.end_object().end_object();
  }

  const FolderTokenizer& t_;
  JsonWriter& json_;
  std::map<std::string, TokenId> used_;
};

void add_post_processor(const FolderTokenizer& t, JsonWriter& json) {
  const PostProcessor& how = t.description.post_processor;
  json.key("post_processor");
  if (how.added_count(false) != 0) TemplateWriter(t, json).write(how);
  else if (t.vocabulary.model == "gpt2") add_byte_level(json, true);
  else json.null();
}

void add_added_tokens(const FolderTokenizer& t, JsonWriter& json) {
  json.key("added_tokens").begin_array();
  for (const AddedToken& token : t.description.added) {
    json.begin_object().key("id").number(token.id).key("content").string(token.text);
    json.key("single_word").boolean(false).key("lstrip").boolean(token.strip_left);
    json.key("rstrip").boolean(token.strip_right).key("normalized").boolean(false);
    json.key("special").boolean(token.special).end_object();
  }
  json.end_array();
}

// ---------------------------------------------------------------- chat templates

struct NamedTemplate {
  std::string_view name;
  std::string_view text;
};

// "tokenizer.chat_template", and others behind a name.
std::vector<NamedTemplate> chat_templates(const Description& file) {
  std::vector<NamedTemplate> found;
  for (const MetaEntry& entry : file.metadata) {
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr || !entry.key.starts_with(kChatTemplate)) continue;
    const std::string_view rest = std::string_view(entry.key).substr(kChatTemplate.size());
    if (rest.empty()) found.insert(found.begin(), {"default", *text});
    else if (rest.starts_with('.')) found.push_back({rest.substr(1), *text});
  }
  return found;
}

void add_chat_template(const Description& file, FolderJson& json) {
  const std::vector<NamedTemplate> templates = chat_templates(file);
  if (templates.empty()) return;
  if (templates.size() == 1 && templates.front().name == "default") {
    json.text("chat_template", templates.front().text);
    return;
  }
  JsonWriter& writer = json.writer().key("chat_template").begin_array();
  for (const NamedTemplate& each : templates) {
    writer.begin_object().key("name").string(each.name).key("template").string(each.text).end_object();
  }
  writer.end_array();
}

// ---------------------------------------------------------------- sampling

struct SamplingName {
  std::string_view gguf, huggingface;
  bool whole;
};
constexpr SamplingName kSamplingNames[] = {
    {"general.sampling.temp", "temperature", false},
    {"general.sampling.top_k", "top_k", true},
    {"general.sampling.top_p", "top_p", false},
    {"general.sampling.min_p", "min_p", false},
    {"general.sampling.penalty_repeat", "repetition_penalty", false},
};

std::optional<double> number_of(const MetaValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<uint64_t>(&value)) return static_cast<double>(*whole);
  return std::nullopt;
}

void add_sampling_defaults(const Description& file, FolderJson& json) {
  bool samples = false;
  for (const SamplingName& key : kSamplingNames) {
    const auto entry = std::ranges::find(file.metadata, key.gguf, &MetaEntry::key);
    const auto value = entry == file.metadata.end() ? std::nullopt : number_of(entry->value);
    if (!value || !(*value >= 0) || *value > 1e9) continue;
    if (!samples) json.flag("do_sample", true);
    samples = true;
    if (key.whole) json.count(key.huggingface, static_cast<uint64_t>(*value));
    else json.real(key.huggingface, *value);
  }
}

}  // namespace

Result<std::string> folder_tokenizer_json(const FolderTokenizer& tokenizer) {
  BALLAST_TRY(const std::string model, folder_token_model(tokenizer));
  JsonWriter json;
  json.begin_object().key("version").string("1.0").key("truncation").null().key("padding").null();
  add_added_tokens(tokenizer, json);
  add_stages(tokenizer.vocabulary, json);
  add_post_processor(tokenizer, json);
  add_decoder(tokenizer.vocabulary, json);
  json.key("model").raw(model).end_object();
  return json.take() + '\n';
}

std::string folder_tokenizer_config(const FolderTokenizer& tokenizer, uint64_t context) {
  const TokenMarks& marks = tokenizer.description.marks;
  FolderJson json;
  // The class that takes tokenizer.json as it is; those of the families would build their own.
  json.text("tokenizer_class", "PreTrainedTokenizerFast");
  const auto mark = [&](std::string_view key, std::optional<TokenId> id) {
    if (id) json.text(key, token_text(tokenizer, *id));
  };
  const bool is_bert = tokenizer.vocabulary.model == "bert";
  if (!is_bert) mark("bos_token", marks.begin);
  mark("eos_token", marks.end);
  mark("unk_token", marks.unknown);
  mark("pad_token", marks.padding);
  mark("sep_token", marks.separator);
  mark("mask_token", marks.mask);
  mark("cls_token", is_bert ? marks.begin : marks.classification);
  json.count("model_max_length", context);
  json.flag("clean_up_tokenization_spaces", is_bert);
  add_chat_template(tokenizer.file, json);
  return json.take();
}

std::string folder_generation_config(const TokenMarks& marks, const Description& file) {
  FolderJson json;
  json.token("bos_token_id", marks.begin);
  if (marks.stops.size() > 1) {
    json.writer().key("eos_token_id").begin_array();
    for (const TokenId id : marks.stops) json.writer().number(id);
    json.writer().end_array();
  } else {
    json.token("eos_token_id", marks.end);
  }
  json.token("pad_token_id", marks.padding);
  add_sampling_defaults(file, json);
  return json.take();
}

}  // namespace ballast
