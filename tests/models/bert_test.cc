// An encoder of BERT's kind against what transformers computed with it, under all the names that files have for it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "ballast/archive/open.h"
#include "ballast/backends/backends.h"
#include "ballast/device/host_values.h"
#include "ballast/models/model.h"
#include "ballast/params/budget.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_bert.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kBertTolerance = 1e-4;
constexpr const char* kMeanPooling = R"({"word_embedding_dimension": 48, "pooling_mode_mean_tokens": true,
    "pooling_mode_cls_token": false, "pooling_mode_max_tokens": false})";
constexpr const char* kFirstPooling = R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})";

Tensor embed(LoadedModel& model, const std::vector<TokenId>& ids, const std::vector<uint32_t>& types = {}) {
  const TextEmbedder* embedder = model.as_text_embedder();
  EXPECT_NE(embedder, nullptr);
  auto vector = embedder->embed(model.context(), std::array{EmbedderText{ids, types}});
  EXPECT_TRUE(vector) << vector.error().message;
  return vector ? vector->reshaped({embedder->width()}) : Tensor();
}

std::string embed_failure(LoadedModel& model, const std::vector<TokenId>& ids,
                          const std::vector<uint32_t>& types = {}) {
  const auto vector = model.as_text_embedder()->embed(model.context(), std::array{EmbedderText{ids, types}});
  EXPECT_FALSE(vector);
  return vector ? "" : vector.error().message;
}

RecordedTensor unit_of(RecordedTensor x) {
  double squares = 0;
  for (const float value : x.values) squares += static_cast<double>(value) * static_cast<double>(value);
  for (float& value : x.values) value = static_cast<float>(static_cast<double>(value) / std::sqrt(squares));
  return x;
}

// ---------------------------------------------------------------- numbers

TEST(Bert, StatesAreThoseOfTransformersOnEveryBackend) {
  for (const Backend* backend : backends_to_test()) {
    const auto model = load_or_die(bert_path(), {.backend = std::string(backend->name)});
    EXPECT_EQ(model->kind(), "bert");
    EXPECT_THAT(model->report().unused, IsEmpty());  // the pooler of another task is known
    size_t compared = 0;
    for (const RecordedEncoding& input : recorded_encodings()) {
      if (input.states.empty()) continue;
      const auto states = model->forward(TokenInput{input.ids});
      ASSERT_TRUE(states) << states.error().message;
      EXPECT_LE(largest_difference(*states, bert_tensor(input.states)), kBertTolerance) << backend->name;
      ++compared;
    }
    EXPECT_EQ(compared, 3U);
  }
}

class BertStates final : public TraceSink {
 public:
  Status on_output(std::string_view name, std::string_view, const Tensor& output) override {
    outputs_.insert_or_assign(std::string(name), output);
    return {};
  }
  const Tensor& at(const std::string& name) const { return outputs_.at(name); }

 private:
  std::map<std::string, Tensor> outputs_;
};

TEST(Bert, StatesOfEachLayerAreThoseOfTransformers) {
  const auto model = load_or_die(bert_path());
  const RecordedEncoding& input = recorded_encodings()[1];
  const RecordedTensor expected = bert_tensor(input.hidden);
  const uint64_t length = input.ids.size(), width = 48;
  ASSERT_EQ(expected.dims, (std::vector<uint64_t>{3, length, width}));
  BertStates states;
  model->context().trace = &states;
  ASSERT_TRUE(model->forward(TokenInput{input.ids}));
  model->context().trace = nullptr;
  const std::array<std::string, 3> names = {"embeddings", "blocks.0.output", "blocks.1.output"};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto begin = expected.values.begin() + static_cast<ptrdiff_t>(i * length * width);
    const RecordedTensor layer{{length, width}, {begin, begin + static_cast<ptrdiff_t>(length * width)}};
    EXPECT_LE(largest_difference(states.at(names[i]), layer), kBertTolerance) << names[i];
  }
}

TEST(Bert, WithoutFurtherFilesTheVectorIsTheMeanOfTheStates) {
  const auto model = load_or_die(bert_path());
  EXPECT_THAT(model->capabilities(), ElementsAre("text embedding"));
  EXPECT_EQ(model->as_causal_lm(), nullptr);
  EXPECT_EQ(model->as_text_embedder()->width(), 48U);
  EXPECT_EQ(model->as_text_embedder()->max_length(), 64U);
  for (const RecordedEncoding& input : recorded_encodings()) {
    EXPECT_LE(largest_difference(embed(*model, input.ids), bert_tensor(input.mean)), kBertTolerance);
  }
}

TEST(Bert, ATextHasTheSameVectorInCompanyAsAlone) {
  for (const Backend* backend : backends_to_test()) {
    const auto model = load_or_die(test_file_path("hf/bert"), {.backend = std::string(backend->name), .threads = 2});
    const std::vector<std::vector<TokenId>> ids = {{2, 17, 90, 45, 3}, {2, 3}, std::vector<TokenId>(40, 7), {2, 11, 3}};
    const std::vector<uint32_t> pair = {0, 1, 1};
    std::vector<EmbedderText> texts;
    for (const auto& text : ids) texts.push_back({text, {}});
    texts.back().type_ids = pair;
    const auto together = model->as_text_embedder()->embed(model->context(), texts);
    ASSERT_TRUE(together) << together.error().message;
    std::vector<float> alone;
    for (const EmbedderText& text : texts) {
      const auto vector = floats_of(*model->as_text_embedder()->embed(model->context(), std::span(&text, 1)));
      alone.insert(alone.end(), vector->begin(), vector->end());
    }
    EXPECT_EQ(*floats_of(*together), alone) << backend->name;
    texts[1].ids = {};
    EXPECT_FALSE(model->as_text_embedder()->embed(model->context(), texts)) << "a text without tokens";
  }
}

TEST(Bert, AlsoInAPaddedBatchOfTransformers) {
  const auto model = load_or_die(bert_path());
  const RecordedTensor batch = bert_tensor("batch_mean");
  ASSERT_EQ(batch.dims, (std::vector<uint64_t>{3, 48}));
  for (size_t i = 0; i < 3; ++i) {
    const auto begin = batch.values.begin() + static_cast<ptrdiff_t>(i * 48);
    EXPECT_LE(largest_difference(embed(*model, recorded_encodings()[i].ids), {{48}, {begin, begin + 48}}),
              kBertTolerance);
  }
}

TEST(Bert, PoolsAsSentenceTransformersFilesSay) {
  const TempFolder mean_folder, first_folder;
  copy_bert(mean_folder, sentence_files(kMeanPooling));
  copy_bert(first_folder, sentence_files(kFirstPooling));
  const auto mean = load_or_die(mean_folder.path()), first = load_or_die(first_folder.path("model.safetensors"));
  for (const RecordedEncoding& input : recorded_encodings()) {
    EXPECT_LE(largest_difference(embed(*mean, input.ids), bert_tensor(input.unit)), kBertTolerance);
    EXPECT_LE(largest_difference(embed(*first, input.ids), unit_of(bert_tensor(input.first))), kBertTolerance);
  }
}

TEST(Bert, TakesPoolingInAWord) {
  const TempFolder folder;
  copy_bert(folder, sentence_files(R"({"pooling_mode": "cls"})"));
  const RecordedEncoding& input = recorded_encodings()[1];
  const auto model = load_or_die(folder.path());
  EXPECT_LE(largest_difference(embed(*model, input.ids), unit_of(bert_tensor(input.first))), kBertTolerance);
}

TEST(Bert, LeavesVectorsAsLongAsTheyAreWithoutANormalizeModule) {
  const TempFolder folder;
  auto files = sentence_files(kFirstPooling);
  files[0].second = R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";
  copy_bert(folder, files);
  const auto model = load_or_die(folder.path());
  for (const RecordedEncoding& input : recorded_encodings()) {
    EXPECT_LE(largest_difference(embed(*model, input.ids), bert_tensor(input.first)), kBertTolerance);
  }
}

std::vector<float> bits_of(LoadedModel& model) {
  const auto& ids = recorded_encodings().back().ids;
  const Tensor vector = embed(model, ids);
  const auto states = model.forward(TokenInput{ids});
  EXPECT_TRUE(states);
  std::vector<float> all = read_floats(vector);
  const std::vector<float> further = read_floats(*states);
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

TEST(Bert, NeitherThreadsNorABudgetChangeABit) {
  const TempFolder folder;
  copy_bert(folder, sentence_files(kMeanPooling));
  const auto one = bits_of(*load_or_die(folder.path(), {.threads = 1}));
  for (const unsigned threads : {2U, 3U}) {
    EXPECT_TRUE(bits_of(*load_or_die(folder.path(), {.threads = threads})) == one) << threads << " threads";
  }
  auto archive = open_archive(folder.path());
  ASSERT_TRUE(archive);
  const auto source = make_param_source(std::make_shared<const Archive>(std::move(*archive)));
  const auto tight = load_or_die(folder.path(), {.threads = 2, .param_budget = smallest_budget(*source) + 4096});
  EXPECT_TRUE(bits_of(*tight) == one);
}

// ---------------------------------------------------------------- names

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

using Rename = std::string (*)(const std::string& name);

// The recorded weights under other names, as a file of this format.
std::string write_renamed(const TempFolder& folder, const std::string& file, std::string_view format, Rename rename,
                          std::vector<MetaEntry> metadata = {}) {
  const auto archive = open_archive(bert_path() + "/model.safetensors");
  EXPECT_TRUE(archive);
  std::vector<Payload> payloads;
  WritePlan plan;
  plan.description.metadata = std::move(metadata);
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    const TensorInfo& old = archive->tensors()[i];
    const std::string name = rename(old.name);
    if (name.empty()) continue;
    auto payload = archive->payload(i);
    EXPECT_TRUE(payload);
    payloads.push_back(std::move(*payload));
    plan.add_tensor(make_info(name, old.dtype, old.shape), payloads.back().bytes());
  }
  const auto report = write_archive(folder.path(file), *find_format(format), plan, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return folder.path(file);
}

std::string old_name(const std::string& name) {
  const std::string_view kind = name.find("LayerNorm") == std::string::npos ? "" : "norm";
  if (kind.empty()) return "bert." + name;
  return "bert." + replaced(replaced(name, ".weight", ".gamma"), ".bias", ".beta");
}

TEST(BertNames, TheOldSpellingWithAPrefixIsTheSameModel) {
  const TempFolder folder;
  write_renamed(folder, "model.safetensors", "safetensors", old_name);
  folder.write("config.json", read_text_file(bert_path() + "/config.json"));
  const auto model = load_or_die(folder.path());
  EXPECT_THAT(model->report().unused, IsEmpty());
  const RecordedEncoding& input = recorded_encodings()[2];
  EXPECT_LE(largest_difference(embed(*model, input.ids), bert_tensor(input.mean)), kBertTolerance);
}

std::string gguf_name(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> parts = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.position_embeddings", "position_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"encoder.layer.", "blk."},
      {"attention.self.query", "attn_q"},
      {"attention.self.key", "attn_k"},
      {"attention.self.value", "attn_v"},
      {"attention.output.dense", "attn_output"},
      {"attention.output.LayerNorm", "attn_output_norm"},
      {"intermediate.dense", "ffn_up"},
      {"output.dense", "ffn_down"},
      {"output.LayerNorm", "layer_output_norm"}};
  if (name.starts_with("pooler.")) return "";
  std::string text = name;
  for (const auto& [from, to] : parts) text = replaced(text, from, to);
  return text;
}

std::string write_gguf(const TempFolder& folder, uint64_t pooling_type) {
  return write_renamed(folder, "model.gguf", "gguf", gguf_name,
                       {{"general.architecture", std::string("bert")},
                        {"bert.block_count", uint64_t{2}},
                        {"bert.context_length", uint64_t{64}},
                        {"bert.embedding_length", uint64_t{48}},
                        {"bert.feed_forward_length", uint64_t{96}},
                        {"bert.attention.head_count", uint64_t{4}},
                        {"bert.attention.layer_norm_epsilon", 1e-12},
                        {"bert.attention.causal", false},
                        {"bert.pooling_type", pooling_type}});
}

TEST(BertNames, AGgufFileIsTheSameModel) {
  const TempFolder mean_folder, first_folder;
  const auto mean = load_or_die(write_gguf(mean_folder, 1)), first = load_or_die(write_gguf(first_folder, 2));
  EXPECT_EQ(mean->kind(), "bert");
  EXPECT_THAT(mean->report().unused, IsEmpty());
  for (const RecordedEncoding& input : recorded_encodings()) {
    EXPECT_LE(largest_difference(embed(*mean, input.ids), bert_tensor(input.mean)), kBertTolerance);
    EXPECT_LE(largest_difference(embed(*first, input.ids), bert_tensor(input.first)), kBertTolerance);
  }
}

TEST(BertNames, AFileThatDoesNotPoolHasStatesAndNoVector) {
  const TempFolder folder, other;
  const auto model = load_or_die(write_gguf(folder, 0));
  EXPECT_TRUE(model->forward(TokenInput{{1, 2}}));
  EXPECT_THAT(embed_failure(*model, {1, 2}), HasSubstr("not pooled"));
  EXPECT_THAT(load_failure(write_gguf(other, 4)), AllOf(HasSubstr("bert.pooling_type"), HasSubstr("is 4")));
}

// ---------------------------------------------------------------- input

TEST(Bert, TakesTheTypesOfTokens) {
  const auto model = load_or_die(bert_path());
  const std::vector<TokenId> ids = {11, 18, 68};
  const std::vector<float> none = read_floats(embed(*model, ids));
  ASSERT_EQ(none.size(), 48U);
  EXPECT_TRUE(read_floats(embed(*model, ids, {0, 0, 0})) == none);
  EXPECT_FALSE(read_floats(embed(*model, ids, {0, 0, 1})) == none);
  EXPECT_THAT(embed_failure(*model, ids, {0, 1}), HasSubstr("2 types for 3 tokens"));
  EXPECT_THAT(embed_failure(*model, ids, {0, 1, 2}), HasSubstr("type 2 of the token at position 2"));
}

TEST(Bert, RefusesWhatItHasNoPlaceFor) {
  const auto model = load_or_die(bert_path());
  EXPECT_TRUE(model->forward(TokenInput{std::vector<TokenId>(64, 5)}));
  const auto longer = model->forward(TokenInput{std::vector<TokenId>(65, 5)});
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, AllOf(HasSubstr("65 tokens"), HasSubstr("64")));
  EXPECT_THAT(embed_failure(*model, std::vector<TokenId>(65, 5)), AllOf(HasSubstr("65"), HasSubstr("64")));
  EXPECT_THAT(embed_failure(*model, {}), HasSubstr("no tokens"));
  EXPECT_THAT(embed_failure(*model, {3, 128}), AllOf(HasSubstr("token 128"), HasSubstr("vocabulary of 128")));
}

TEST(Bert, TextsToEmbedAreAsLongAsTheFilesSay) {
  const TempFolder folder;
  copy_bert(folder, sentence_files(kMeanPooling, 8));
  const auto model = load_or_die(folder.path());
  EXPECT_EQ(model->as_text_embedder()->max_length(), 8U);
  EXPECT_THAT(embed_failure(*model, std::vector<TokenId>(9, 5)), HasSubstr("context of 8"));
  EXPECT_TRUE(model->forward(TokenInput{std::vector<TokenId>(9, 5)}));
}

// ---------------------------------------------------------------- lies

struct BertLie {
  std::string name;
  std::string field;
  std::string value;               // JSON
  std::vector<std::string> words;  // of the error
};

const std::vector<BertLie>& bert_lies() {
  static const std::vector<BertLie> all = {
      {"wider", "hidden_size", "96", {"embeddings.word_embeddings.weight", "[128, 48]", "[128, 96]"}},
      {"wordier", "vocab_size", "100000000000", {"embeddings.word_embeddings.weight", "[128, 48]"}},
      {"longer", "max_position_embeddings", "100000000000", {"embeddings.position_embeddings.weight", "[64, 48]"}},
      {"no_positions", "max_position_embeddings", "0", {"0 positions"}},
      {"more_types", "type_vocab_size", "3", {"embeddings.token_type_embeddings.weight", "[2, 48]"}},
      {"deeper", "num_hidden_layers", "3", {"encoder.layer.2.attention.self.query.weight"}},
      {"bottomless", "num_hidden_layers", "1000000000", {"1000000000 layers"}},
      {"no_layers", "num_hidden_layers", "0", {"0 layers"}},
      {"no_heads", "num_attention_heads", "0", {"0 heads"}},
      {"heads_do_not_divide", "num_attention_heads", "5", {"5 heads", "48"}},
      {"feed_overflows", "intermediate_size", "18446744073709551615", {"intermediate.dense.weight", "[96, 48]"}},
      {"eps_of_two", "layer_norm_eps", "2", {"epsilon", "2"}},
      {"other_activation", "hidden_act", "\"mish\"", {"hidden_act", "mish"}},
      {"a_decoder", "is_decoder", "true", {"is_decoder"}},
      {"quantised", "quantization_config", R"({"quant_method": "gptq"})", {"quantization_config", "gptq"}},
      {"another_family", "model_type", "\"roberta\"", {"\"roberta\"", "bert"}},
      {"other_positions", "position_embedding_type", "\"relative_key\"", {"position_embedding_type", "relative_key"}},
  };
  return all;
}

class BertConfigLie : public ::testing::TestWithParam<BertLie> {};
INSTANTIATE_TEST_SUITE_P(Every, BertConfigLie, ::testing::ValuesIn(bert_lies()),
                         [](const auto& lie) { return lie.param.name; });

TEST_P(BertConfigLie, IsAnErrorThatNamesIt) {
  std::string text = read_text_file(bert_path() + "/config.json");
  text.resize(text.find_last_of('}'));
  LoadOptions options;
  options.config_text = fmt::format("{}, \"{}\": {}}}", text, GetParam().field, GetParam().value);
  const std::string message = load_failure(bert_path(), options);
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
}

struct ModuleLie {
  std::string name;
  std::string file;
  std::string text;
  std::vector<std::string> words;
};

const std::vector<ModuleLie>& module_lies() {
  static const std::vector<ModuleLie> all = {
      {"a_dense_layer",
       "modules.json",
       R"([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])",
       {"Dense", "Normalize"}},
      {"outside_the_folder", "modules.json", R"([{"path": "../other", "type": "x.Pooling"}])", {"../other"}},
      {"above_the_folder", "modules.json", R"([{"path": "..", "type": "x.Pooling"}])", {".."}},
      {"absolute", "modules.json", R"([{"path": "/etc", "type": "x.Pooling"}])", {"/etc"}},
      {"no_list", "modules.json", "{}", {"modules.json"}},
      {"no_json", "1_Pooling/config.json", "{\"pooling", {"1_Pooling"}},
      {"no_object", "1_Pooling/config.json", "[]", {"Pooling"}},
      {"the_maximum", "1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})", {"pooling_mode_max_tokens"}},
      {"two_ways",
       "1_Pooling/config.json",
       R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})",
       {"pooling_mode_cls_token", "one way"}},
      {"the_maximum_in_a_word", "1_Pooling/config.json", R"({"pooling_mode": "max"})", {"pooling_mode", "max"}},
      {"another_width", "1_Pooling/config.json", R"({"word_embedding_dimension": 384})", {"384", "48"}},
      {"no_length", "sentence_bert_config.json", R"({"max_seq_length": 0})", {"max_seq_length"}},
      {"words_in_front",
       "config_sentence_transformers.json",
       R"({"prompts": {"query": "query: "}, "default_prompt_name": "query"})",
       {"default_prompt_name", "query"}},
  };
  return all;
}

class BertModuleLie : public ::testing::TestWithParam<ModuleLie> {};
INSTANTIATE_TEST_SUITE_P(Every, BertModuleLie, ::testing::ValuesIn(module_lies()),
                         [](const auto& lie) { return lie.param.name; });

TEST_P(BertModuleLie, IsAnErrorThatNamesIt) {
  const TempFolder folder;
  auto files = sentence_files(kMeanPooling);
  files.emplace_back(GetParam().file, GetParam().text);  // written last
  copy_bert(folder, files);
  const std::string message = load_failure(folder.path());
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
}

TEST(BertConfig, MoreModulesThanAnyModelHasAreRefused) {
  const TempFolder folder;
  std::string list = "[";
  for (int i = 0; i < 100; ++i) list += R"({"path": "", "type": "x.Transformer"},)";
  list.back() = ']';
  copy_bert(folder, {{"modules.json", list}});
  EXPECT_THAT(load_failure(folder.path()), HasSubstr("more than 16 modules"));
}

TEST(BertConfig, AFamilyThatIsNotThereNamesThoseThatAre) {
  LoadOptions options;
  options.config_text = R"({"model_type": "roberta"})";
  EXPECT_THAT(load_failure(bert_path(), options), AllOf(HasSubstr("roberta"), HasSubstr("llama"), HasSubstr(", bert")));
}

}  // namespace
}  // namespace ballast::testing
