// Tokenizers of folders in GGUF's keys, against what llama.cpp's converter recorded, and against the folders' own
// tokens.
#include "ballast/exchange/gguf_vocabulary_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/engine/generator.h"
#include "ballast/exchange/exchange.h"
#include "ballast/runtime/load_model.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// ---------------------------------------------------------------- cases

struct VocabularyCase {
  std::string name, tokenizer, architecture, config, tokenizer_config;
  uint64_t vocab = 0;

  friend void PrintTo(const VocabularyCase& each, std::ostream* out) { *out << each.name; }
};

std::vector<VocabularyCase> vocabulary_cases() {
  const std::string text = read_text_file(test_file_path("gguf_vocabularies/cases.json"));
  std::vector<VocabularyCase> cases;
  JsonReader list(text, "cases.json");
  EXPECT_TRUE(list.enter_array());
  while (*list.next_element()) {
    const auto entry = JsonObject::parse(*list.read_raw(), "cases.json");
    VocabularyCase each;
    each.name = **entry->find_text("name");
    each.tokenizer = **entry->find_text("tokenizer");
    each.architecture = **entry->find_text("architecture");
    each.config = *entry->find("config");
    each.tokenizer_config = entry->find("tokenizer_config").value_or("");
    each.vocab = **(*entry->find_object("config"))->find_count("vocab_size");
    cases.push_back(std::move(each));
  }
  return cases;
}

void make_folder(const VocabularyCase& each, const TempFolder& to) {
  const bool is_sentencepiece = each.tokenizer.ends_with(".model");
  to.write(is_sentencepiece ? "tokenizer.model" : "tokenizer.json", read_text_file(test_file_path(each.tokenizer)));
  to.write("config.json", each.config);
  if (!each.tokenizer_config.empty()) to.write("tokenizer_config.json", each.tokenizer_config);
}

std::vector<MetaEntry> keys_of(const VocabularyCase& each, const TempFolder& folder) {
  const auto files = read_gguf_source_files(folder.path());
  EXPECT_TRUE(files);
  std::vector<std::string> notes;
  const auto keys = gguf_vocabulary_keys(
      {.files = *files, .config_json = each.config, .architecture = each.architecture, .vocab = each.vocab}, notes);
  EXPECT_TRUE(keys) << (keys ? "" : keys.error().message);
  return keys ? *keys : std::vector<MetaEntry>();
}

// ---------------------------------------------------------------- what was recorded

MetaValue list_value(const std::string& key, std::string_view json) {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  JsonReader reader(json, key);
  EXPECT_TRUE(reader.enter_array());
  while (*reader.next_element()) {
    if (key.ends_with("token_type")) types.push_back(static_cast<int32_t>(*reader.read_i64()));
    else if (key.ends_with("scores")) scores.push_back(static_cast<float>(*reader.read_double()));
    else texts.push_back(*reader.read_string());
  }
  if (!types.empty()) return MetaArray::of(std::span<const int32_t>(types));
  if (!scores.empty()) return MetaArray::of(std::span<const float>(scores));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return MetaArray::of_texts(views);
}

std::vector<MetaEntry> recorded_keys(const std::string& name) {
  const std::string text = read_text_file(test_file_path("gguf_vocabularies/" + name + ".json"));
  std::vector<MetaEntry> entries;
  JsonReader reader(text, name);
  EXPECT_TRUE(reader.enter_object());
  std::string key;
  while (*reader.next_key(key)) {
    const std::string_view raw = *reader.read_raw();
    MetaValue value;
    if (raw.starts_with('[')) value = list_value(key, raw);
    else if (raw.starts_with('"')) value = *JsonReader(raw, key).read_string();
    else if (raw == "true" || raw == "false") value = raw == "true";
    else value = *JsonReader(raw, key).read_u64();
    if (key != "tokenizer.ggml.token_type_count") entries.push_back({key, std::move(value)});  // the model's business
  }
  return entries;
}

class GgufVocabularyKeys : public ::testing::TestWithParam<VocabularyCase> {};
INSTANTIATE_TEST_SUITE_P(Every, GgufVocabularyKeys, ::testing::ValuesIn(vocabulary_cases()),
                         [](const auto& each) { return each.param.name; });

TEST_P(GgufVocabularyKeys, AreThoseOfLlamaCppsConverterInItsOrder) {
  const TempFolder folder;
  make_folder(GetParam(), folder);
  const auto got = keys_of(GetParam(), folder);
  const auto want = recorded_keys(GetParam().name);
  for (size_t i = 0; i < std::max(got.size(), want.size()); ++i) {
    ASSERT_LT(i, got.size()) << "missing: " << want[i].key;
    ASSERT_LT(i, want.size()) << "more than the converter wrote: " << got[i].key;
    ASSERT_EQ(got[i].key, want[i].key);
    EXPECT_EQ(got[i], want[i]) << got[i].key;
  }
}

// ---------------------------------------------------------------- tokens

std::string gguf_of_keys(std::vector<MetaEntry> keys, const std::string& path) {
  WritePlan plan;
  plan.description.metadata = std::move(keys);
  const auto written = write_archive(path, *find_format("gguf"), plan);
  EXPECT_TRUE(written) << (written ? "" : written.error().message);
  return path;
}

// Without marks that take the space beside them, which GGUF cannot say.
std::vector<std::string> sample_texts() {
  return {"",
          "Hello world",
          "  two  spaces and\ttabs\n\nlines ",
          "I've been 'told he's there, 'RE you sure?",
          "3 33 333 3333 33333 1314151天 3.3 3..3",
          "нещо на Български, naïve café, 我想在apple工作",
          "<|sys|>the other one, most people",
          "🚀 (normal) ✅ ------======= ```````"};
}

void expect_equal_tokens(const Tokenizer& got, const Tokenizer& want) {
  for (const std::string& text : sample_texts()) {
    const auto a = got.encode(text);
    const auto b = want.encode(text);
    ASSERT_TRUE(a && b) << text;
    EXPECT_EQ(*a, *b) << text;
  }
}

TEST_P(GgufVocabularyKeys, GiveTheTokensOfTheFolder) {
  const TempFolder folder;
  make_folder(GetParam(), folder);
  const auto made = load_tokenizer(gguf_of_keys(keys_of(GetParam(), folder), folder.path("x.gguf")));
  const auto own = load_tokenizer(folder.path());
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(own) << own.error().message;
  expect_equal_tokens(*made, *own);
}

// Where there is no tokenizer.model the converter gives all tokens the same score, with which llama.cpp merges what
// comes first; the ranks of merges give the tokens of the folder.
TEST(VocabularyKeys, GiveScoresByRankToACharacterModelInTokenizerJson) {
  const TempFolder folder;
  const VocabularyCase llama2{.name = "llama2",
                              .tokenizer = "tokenizers/bpe_llama2.json",
                              .architecture = "llama",
                              .config = R"({"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2})",
                              .tokenizer_config = "",
                              .vocab = 640};
  make_folder(llama2, folder);
  const auto keys = keys_of(llama2, folder);
  const auto made = load_tokenizer(gguf_of_keys(keys, folder.path("x.gguf")));
  const auto own = load_tokenizer(folder.path());
  ASSERT_TRUE(made && own) << (made ? "" : made.error().message);
  expect_equal_tokens(*made, *own);
  EXPECT_EQ(keys.front().key, "tokenizer.ggml.model");
  EXPECT_EQ(std::get<std::string>(keys.front().value), "llama");
}

TEST(VocabularyKeys, RefuseAPreTokenizerThatLlamaCppHasNoNameFor) {
  const TempFolder folder;
  folder.write("tokenizer.json",
               R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[xyz]+"}, "behavior": "Isolated"},
                   "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  const auto files = read_gguf_source_files(folder.path());
  ASSERT_TRUE(files);
  std::vector<std::string> notes;
  const auto keys =
      gguf_vocabulary_keys({.files = *files, .config_json = "{}", .architecture = "llama", .vocab = 3}, notes);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(keys.error().message, HasSubstr("[xyz]+"));
}

TEST(VocabularyKeys, RefuseATokenBeyondTheEmbedding) {
  const TempFolder folder;
  folder.write("tokenizer.json", read_text_file(test_file_path("tokenizers/bpe_gpt2.json")));
  const auto files = read_gguf_source_files(folder.path());
  ASSERT_TRUE(files);
  std::vector<std::string> notes;
  const auto keys =
      gguf_vocabulary_keys({.files = *files, .config_json = "{}", .architecture = "gpt2", .vocab = 64}, notes);
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().message, HasSubstr("only 64 rows"));
}

TEST(VocabularyKeys, OfGptRssFlatFileCutAsGpt2) {
  const TempFolder folder;
  folder.write("tokenizer.json", read_text_file(test_file_path("tokenizers/gptrs_flat.json")));
  const VocabularyCase flat{
      .name = "flat", .tokenizer = "", .architecture = "gpt2", .config = "{}", .tokenizer_config = "", .vocab = 2000};
  const auto made = load_tokenizer(gguf_of_keys(keys_of(flat, folder), folder.path("x.gguf")));
  const auto own = load_tokenizer(folder.path("tokenizer.json"));
  ASSERT_TRUE(made && own) << (made ? "" : made.error().message);
  for (const char* text : {"Hello world", "the other one", "  spaces 123"})
    EXPECT_EQ(*made->encode(text), *own->encode(text));
}

// ---------------------------------------------------------------- a whole model

// A llama of one layer with made-up numbers, as large as the tokenizer.
void write_tiny_llama(const TempFolder& folder, uint64_t vocab) {
  WritePlan plan;
  uint32_t state = 7;
  const auto add = [&](const std::string& name, Shape shape) {
    TensorInfo info = make_info(name, DType::kF32, shape);
    ByteVector bytes(info.byte_size);
    for (size_t at = 0; at < bytes.size(); at += 4) {
      state = state * 1664525 + 1013904223;
      store_le(&bytes[at], std::bit_cast<uint32_t>(static_cast<float>(state >> 8) / 0x1p24F - 0.5F));
    }
    plan.add_tensor(std::move(info), [bytes](ByteSink& sink) { return sink.write(bytes); });
  };
  add("model.embed_tokens.weight", {vocab, 8});
  add("model.norm.weight", {8});
  const std::string layer = "model.layers.0.";
  for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name + ".weight", {8});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    add(layer + "self_attn." + name + ".weight", {8, 8});
  for (const char* name : {"gate_proj", "up_proj"}) add(layer + "mlp." + name + ".weight", {16, 8});
  add(layer + "mlp.down_proj.weight", {8, 16});
  const auto written = write_archive(folder.path("model.safetensors"), *find_format("safetensors"), plan);
  ASSERT_TRUE(written) << written.error().message;
  folder.write("config.json",
               R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "vocab_size": )" +
                   std::to_string(vocab) +
                   R"(, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                      "num_key_value_heads": 2, "tie_word_embeddings": true, "bos_token_id": 520, "eos_token_id": 521})");
}

TEST(GgufOfFolderWithTokenizer, WritesTheTextThatItsFolderWrites) {
  const TempFolder folder, temp;
  write_tiny_llama(folder, 530);
  folder.write("tokenizer.json", read_text_file(test_file_path("tokenizers/bpe_llama3.json")));
  folder.write("tokenizer_config.json", R"({"bos_token": "<|sys|>", "eos_token": "<|end|>"})");
  const auto source = open_archive(folder.path());
  ASSERT_TRUE(source) << source.error().message;
  const auto plan = plan_gguf({folder.path(), *source});
  ASSERT_TRUE(plan) << plan.error().message;
  ConvertOptions options;
  options.edits = plan->edits;
  const auto report = convert_archive(*source, temp.path("x.gguf"), *find_format("gguf"), options);
  ASSERT_TRUE(report) << report.error().message;

  std::vector<std::string> texts;
  for (const std::string& path : {folder.path(), temp.path("x.gguf")}) {
    const auto model = load_or_die(path);
    const auto tokenizer = load_tokenizer(*find_tokenizer_beside(path));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto prompt = tokenizer->encode("Hello world, 123");
    ASSERT_TRUE(prompt);
    const std::vector<TokenId> written = write_on(*model, *prompt, greedily(12));
    const auto text = tokenizer->decode(written);
    ASSERT_TRUE(text);
    texts.push_back(*text);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace ballast::testing
