#include "ballast/edit/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ballast/archive/open.h"
#include "ballast/edit/huggingface_table.h"
#include "ballast/edit/tensor_stream.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---------------------------------------------------------------- helpers

Archive open_data(const std::string& name) {
  auto archive = open_archive(test_file_path(name));
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  return *std::move(archive);
}

// What stands in a plan, drawn: name -> shape and bytes.
struct Drawn {
  Shape shape;
  ByteVector bytes;

  friend bool operator==(const Drawn&, const Drawn&) = default;
};

std::map<std::string, Drawn> draw_plan(const WritePlan& plan) {
  std::map<std::string, Drawn> all;
  for (size_t i = 0; i < plan.providers.size(); ++i) {
    const TensorInfo& info = plan.description.tensors[i];
    auto bytes = draw_all(plan.providers[i], info.byte_size);
    EXPECT_TRUE(bytes) << info.name << (bytes ? "" : bytes.error().message);
    if (bytes) all[info.name] = {info.shape, *std::move(bytes)};
  }
  return all;
}

std::vector<float> drawn_values(const Drawn& tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void add_values(WritePlan& plan, const std::string& name, Shape shape, const std::vector<float>& values) {
  TensorInfo info = make_info(name, DType::kF32, std::move(shape));
  ASSERT_EQ(info.byte_size, values.size() * 4) << name;
  const ByteSpan bytes = std::as_bytes(std::span(values));
  plan.add_tensor(info, [copy = ByteVector(bytes.begin(), bytes.end())](ByteSink& sink) { return sink.write(copy); });
}

// Values that differ from tensor to tensor.
void add_counting(WritePlan& plan, const std::string& name, const Shape& shape) {
  std::vector<float> values(*shape.element_count());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i) * 0.25F - 3.0F + static_cast<float>(name.size());
  }
  add_values(plan, name, shape, values);
}

HuggingFaceReport to_huggingface(WritePlan& plan) {
  std::vector<std::string> notes;
  auto report = gptrs_to_huggingface(plan, {}, notes);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return report ? *std::move(report) : HuggingFaceReport{};
}

HuggingFaceOptions with_config(std::optional<std::string> text, bool chosen) {
  HuggingFaceOptions options;
  options.config_text = std::move(text);
  options.config_was_chosen = chosen;
  return options;
}

HuggingFaceReport to_gptrs(WritePlan& plan, std::optional<std::string> config = std::nullopt) {
  std::vector<std::string> notes;
  const bool chosen = config.has_value();
  auto report = huggingface_to_gptrs(plan, with_config(std::move(config), chosen), notes);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return report ? *std::move(report) : HuggingFaceReport{};
}

Error refusal_of_gptrs(WritePlan plan, std::optional<std::string> config = std::nullopt) {
  std::vector<std::string> notes;
  const bool chosen = config.has_value();
  const auto report = huggingface_to_gptrs(plan, with_config(std::move(config), chosen), notes);
  return report ? make_error(ErrorCode::kInvalidArgument, "no error") : report.error();
}

std::string error_of_gptrs(WritePlan plan, std::optional<std::string> config = std::nullopt) {
  return refusal_of_gptrs(std::move(plan), std::move(config)).message;
}

// ---------------------------------------------------------------- language models

class LanguageModel : public ::testing::TestWithParam<const char*> {};

TEST_P(LanguageModel, ComesBackWithTheSameBytesAndConfigFromConfigJsonAlone) {
  const Archive source = open_data(std::string("gptrs/") + GetParam() + "/model.gptrs");
  const auto before = draw_plan(make_plan(source));
  WritePlan plan = make_plan(source);
  const HuggingFaceReport there = to_huggingface(plan);
  EXPECT_FALSE(there.config_text.empty());
  plan.description.config.reset();  // as a file that another program saved
  const HuggingFaceReport back = to_gptrs(plan, there.config_text);
  EXPECT_EQ(draw_plan(plan), before);
  EXPECT_EQ(back.config_text, source.description().config->text);
  EXPECT_EQ(back.kind, there.kind);
  EXPECT_EQ(back.tied, there.tied);
  EXPECT_TRUE(plan.description.metadata.empty());
}

INSTANTIATE_TEST_SUITE_P(Genuine, LanguageModel,
                         ::testing::Values("gpt_base", "gpt_12layer", "gpt_micro", "ministral_linear",
                                           "ministral_yarn"));

TEST(HuggingFace, KeepsTheExactConfigThatThePlanCarries) {
  // The Rust writer's config: other order of keys, f32 widened. config.json could not give that back.
  const Archive source = open_data("gptrs/gpt_base/model_rust_saver.gptrs");
  WritePlan plan = make_plan(source);
  const HuggingFaceReport there = to_huggingface(plan);
  std::vector<std::string> notes;
  const auto back = huggingface_to_gptrs(plan, with_config(there.config_text, false), notes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->config_text, source.description().config->text);
}

TEST(HuggingFace, NamesAreThoseThatTransformersSaves) {
  for (const auto& [gptrs, genuine] :
       {std::pair("gptrs/gpt_base/model.gptrs", "huggingface/gpt2/model.safetensors"),
        std::pair("gptrs/ministral_yarn/model.gptrs", "huggingface/ministral3/model.safetensors")}) {
    const Archive source = open_data(gptrs);
    const Archive model = open_data(genuine);
    WritePlan plan = make_plan(source);
    to_huggingface(plan);
    std::set<std::string> names;
    std::set<std::string> expected;
    for (const TensorInfo& tensor : plan.description.tensors) names.insert(tensor.name);
    for (const TensorInfo& tensor : model.tensors()) expected.insert(tensor.name);
    names.erase("lm_head.weight");  // the genuine ones are tied
    EXPECT_EQ(names, expected) << gptrs;
  }
}

TEST(HuggingFace, AGenuineGpt2BecomesACheckpoint) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  WritePlan plan = make_plan(source);
  const auto before = draw_plan(plan);
  const HuggingFaceReport report = to_gptrs(plan, read_text_file(test_file_path("huggingface/gpt2/config.json")));
  EXPECT_EQ(report.config_text,
            R"({"kind":"gpt","config":{"vocab_size":128,"context_length":64,"embed_dim":40,"num_layers":2,)"
            R"("num_heads":4,"mlp_ratio":4,"dropout":0.1}})");
  EXPECT_TRUE(report.tied);
  const auto after = draw_plan(plan);
  EXPECT_EQ(after.size(), 12U * 2 + 5);
  EXPECT_EQ(after.at("blocks.1.attention.w_qkv"), before.at("transformer.h.1.attn.c_attn.weight"));
  const auto embedding = drawn_values(before.at("transformer.wte.weight"));
  const auto head = drawn_values(after.at("lm_head"));
  EXPECT_EQ(after.at("lm_head").shape, (Shape{40, 128}));
  EXPECT_EQ(head[7 * 128 + 100], embedding[100 * 40 + 7]);
}

TEST(HuggingFace, AGenuineMinistralBecomesACheckpoint) {
  const Archive source = open_data("huggingface/ministral3/model.safetensors");
  WritePlan plan = make_plan(source);
  const auto before = draw_plan(plan);
  const HuggingFaceReport report = to_gptrs(plan, read_text_file(test_file_path("huggingface/ministral3/config.json")));
  EXPECT_EQ(report.config_text,
            R"({"kind":"ministral","config":{"vocab_size":128,"context_length":128,"embed_dim":48,"num_layers":2,)"
            R"("num_heads":4,"num_kv_heads":2,"head_dim":16,"kv_head_dim":16,"mlp_hidden_dim":72,"rms_norm_eps":1e-05,)"
            R"("rope_theta":1000000.0,"rotary_dim":16,"rope_scaling":{"kind":"yarn","factor":4.0,)"
            R"("original_max_position_embeddings":16,"mscale":1.0,"mscale_all_dim":1.0,"beta_fast":32.0,)"
            R"("beta_slow":1.0}}})");
  const auto after = draw_plan(plan);
  const Drawn& joint = after.at("blocks.0.attention.w_qkv");
  ASSERT_EQ(joint.shape, (Shape{48, 64 + 2 * 32}));
  const auto all = drawn_values(joint);
  const auto queries = drawn_values(before.at("model.layers.0.self_attn.q_proj.weight"));
  const auto keys = drawn_values(before.at("model.layers.0.self_attn.k_proj.weight"));
  const auto values = drawn_values(before.at("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_EQ(all[5 * 128 + 63], queries[63 * 48 + 5]);
  EXPECT_EQ(all[5 * 128 + 64], keys[0 * 48 + 5]);
  EXPECT_EQ(all[47 * 128 + 127], values[31 * 48 + 47]);
}

TEST(HuggingFace, LeavesTheOutputMatrixOutOnlyWhereItIsTheEmbeddingExactly) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  const auto original = draw_plan(make_plan(source));
  WritePlan tied = make_plan(source);
  to_gptrs(tied, R"({"n_head": 4})");
  WritePlan changed = tied;
  const HuggingFaceReport report = to_huggingface(tied);
  EXPECT_TRUE(report.tied);
  EXPECT_THAT(report.config_text, HasSubstr("\"tie_word_embeddings\": true"));
  EXPECT_EQ(draw_plan(tied), original);

  const auto head = std::ranges::find(changed.description.tensors, "lm_head", &TensorInfo::name);
  TensorProvider& provider = changed.providers[static_cast<size_t>(head - changed.description.tensors.begin())];
  provider = [original_head = provider, bytes = head->byte_size](ByteSink& sink) -> Status {
    BALLAST_TRY(ByteVector all, draw_all(original_head, bytes));
    all.back() ^= std::byte{0x01};
    return sink.write(all);
  };
  const HuggingFaceReport other = to_huggingface(changed);
  EXPECT_FALSE(other.tied);
  EXPECT_THAT(other.config_text, HasSubstr("\"tie_word_embeddings\": false"));
  EXPECT_EQ(draw_plan(changed).at("lm_head.weight").shape, (Shape{128, 40}));
}

TEST(HuggingFace, ConfigJsonIsSortedAndSaysWhatTheCheckpointKnows) {
  const Archive source = open_data("gptrs/gpt_base/model.gptrs");
  WritePlan plan = make_plan(source);
  EXPECT_EQ(to_huggingface(plan).config_text, R"({
  "architectures": ["GPT2LMHeadModel"],
  "layer_norm_epsilon": 1e-05,
  "model_type": "gpt2",
  "n_embd": 32,
  "n_head": 4,
  "n_inner": 128,
  "n_layer": 2,
  "n_positions": 48,
  "resid_pdrop": 0.1,
  "tie_word_embeddings": false,
  "vocab_size": 320
}
)");
}

TEST(HuggingFace, ReportsHowManyTensorsEachPatternStoodFor) {
  const Archive source = open_data("gptrs/ministral_yarn/model.gptrs");
  WritePlan plan = make_plan(source);
  const HuggingFaceReport report = to_huggingface(plan);
  const auto row = std::ranges::find(report.mapped, "blocks.{}.attention.w_qkv", &MappedNames::gptrs);
  ASSERT_NE(row, report.mapped.end());
  EXPECT_EQ(row->tensors, 2U);
  EXPECT_EQ(row->change, "joined and transposed");
  EXPECT_EQ(row->huggingface,
            "model.layers.{}.self_attn.q_proj.weight, model.layers.{}.self_attn.k_proj.weight, "
            "model.layers.{}.self_attn.v_proj.weight");
}

TEST(HuggingFace, TakesTheNamesOfTheOriginalGpt2UploadAndLeavesItsMasksOut) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  WritePlan plan = make_plan(source);
  for (TensorInfo& tensor : plan.description.tensors) tensor.name.erase(0, std::string("transformer.").size());
  add_counting(plan, "h.0.attn.bias", {1, 1, 4, 4});
  const HuggingFaceReport report = to_gptrs(plan, R"({"n_head": 4})");
  EXPECT_THAT(report.ignored, ElementsAre("h.0.attn.bias"));
  EXPECT_EQ(plan.description.tensors.size(), 29U);
  EXPECT_THAT(report.config_text, HasSubstr("\"dropout\":0.0"));
}

// ---------------------------------------------------------------- what is refused

TEST(HuggingFace, SaysWhichValuesNeitherShapesNorConfigTell) {
  const Archive gpt2 = open_data("huggingface/gpt2/model.safetensors");
  const Error refusal = refusal_of_gptrs(make_plan(gpt2));
  EXPECT_EQ(refusal.message,
            "the tensors do not tell n_head, and there is no config.json: give a config.json that has it");
  EXPECT_EQ(refusal.remedies, Remedy::kGiveConfig);
  const Archive ministral = open_data("huggingface/ministral3/model.safetensors");
  EXPECT_EQ(error_of_gptrs(make_plan(ministral), R"({"rope_theta": 1e6})"),
            "the tensors do not tell max_position_embeddings, num_attention_heads, rms_norm_eps, and config.json does "
            "not either: give a config.json that has them");
}

TEST(HuggingFace, RefusesAConfigOfAnotherModel) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  EXPECT_EQ(error_of_gptrs(make_plan(source), R"({"n_head": 4, "n_embd": 768})"),
            "config.json: \"n_embd\" is 768, but the tensors have 40; the config belongs to another model");
  EXPECT_EQ(error_of_gptrs(make_plan(source), R"({"kind":"ministral","config":{}})"),
            "config.json: says kind \"ministral\", but the tensors are those of gpt");
  EXPECT_THAT(error_of_gptrs(make_plan(source), R"({"n_head": "four"})"),
              HasSubstr("\"n_head\" is \"four\", not a whole number"));
  EXPECT_THAT(error_of_gptrs(make_plan(source), R"({"n_head": 4)"), HasSubstr("config.json: byte"));
  const Archive ministral = open_data("huggingface/ministral3/model.safetensors");
  const std::string rest = R"("max_position_embeddings":128,"rms_norm_eps":1e-5,"rope_theta":1e4)";
  EXPECT_THAT(error_of_gptrs(make_plan(ministral), "{\"num_attention_heads\":5," + rest + "}"),
              HasSubstr("5 heads of 12 do not make the 64 rows of q_proj"));
  EXPECT_THAT(
      error_of_gptrs(make_plan(ministral), "{\"num_attention_heads\":4,\"num_key_value_heads\":4," + rest + "}"),
      HasSubstr("key and value heads of 16 do not make the 32 rows of k_proj"));
  EXPECT_THAT(
      error_of_gptrs(make_plan(ministral), "{\"num_attention_heads\":4,\"model_type\":\"smollm3\"," + rest + "}"),
      HasSubstr("model_type \"smollm3\" has the names of a Llama but may compute something else"));
  EXPECT_THAT(error_of_gptrs(make_plan(ministral),
                             "{\"num_attention_heads\":4,\"rope_scaling\":{\"rope_type\":\"llama3\","
                             "\"factor\":8}," +
                                 rest + "}"),
              HasSubstr("gpt.rs has no rope of type \"llama3\""));
}

TEST(HuggingFace, NamesTensorsThatHaveNoCounterpart) {
  const Archive source = open_data("huggingface/ministral3/model.safetensors");
  WritePlan plan = make_plan(source);
  add_counting(plan, "model.layers.0.self_attn.q_proj.bias", {64});
  const Error refusal = refusal_of_gptrs(plan);
  EXPECT_EQ(refusal.message,
            "1 of 21 tensors have no counterpart in a model of kind ministral (Ministral, Mistral, Llama): "
            "\"model.layers.0.self_attn.q_proj.bias\". The nearest name that it has is "
            "\"model.layers.{}.self_attn.q_proj.weight\". Leave them out if nothing needs them");
  EXPECT_EQ(refusal.remedies, Remedy::kSelectTensors);
}

TEST(HuggingFace, NamesTensorsThatAreMissing) {
  const Archive source = open_data("huggingface/ministral3/model.safetensors");
  WritePlan plan;
  WritePlan no_block;
  const WritePlan whole = make_plan(source);
  for (size_t i = 0; i < whole.providers.size(); ++i) {
    const TensorInfo& tensor = whole.description.tensors[i];
    if (tensor.name != "model.layers.1.self_attn.k_proj.weight") plan.add_tensor(tensor, whole.providers[i]);
    if (!tensor.name.starts_with("model.layers.0.")) no_block.add_tensor(tensor, whole.providers[i]);
  }
  EXPECT_THAT(error_of_gptrs(plan), HasSubstr("but it lacks \"model.layers.1.self_attn.k_proj.weight\""));
  EXPECT_THAT(error_of_gptrs(no_block), HasSubstr("but it lacks all tensors of block 0"));
}

TEST(HuggingFace, RefusesANonTiedModelWithoutItsOutputMatrix) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  EXPECT_THAT(error_of_gptrs(make_plan(source), R"({"n_head": 4, "tie_word_embeddings": false})"),
              HasSubstr("lm_head.weight is missing"));
}

TEST(HuggingFace, RefusesWhatIsNoModelOfGptRs) {
  WritePlan plan;
  add_counting(plan, "encoder.weight", {2, 2});
  EXPECT_THAT(error_of_gptrs(plan), HasSubstr("no tensor has a name that gpt (GPT-2), ministral"));
  std::vector<std::string> notes;
  const auto none = gptrs_to_huggingface(plan, {}, notes);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("carries no model config of gpt.rs"));
  plan.description.config = ModelConfig{"gptrs", R"({"kind":"vgg"})"};
  const auto other = gptrs_to_huggingface(plan, {}, notes);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("models of kind \"vgg\" have no names over there"));
}

TEST(HuggingFace, LeavesThePlanAloneWhenItFails) {
  const Archive source = open_data("huggingface/gpt2/model.safetensors");
  WritePlan plan = make_plan(source);
  std::vector<std::string> notes;
  ASSERT_FALSE(huggingface_to_gptrs(plan, {}, notes));
  EXPECT_EQ(plan.description.tensors.size(), source.tensors().size());
  EXPECT_EQ(draw_plan(plan), draw_plan(make_plan(source)));
}

// ---------------------------------------------------------------- convolution nets

// All tensors of a kind as gpt.rs has them, with two channels everywhere.
WritePlan small_vision_model(const std::string& kind) {
  WritePlan plan;
  const auto fold = [&](const std::string& name) {
    add_counting(plan, name + ".weight", {2, 2, 1, 1});
    add_values(plan, name + ".bias", {2}, {-0.0F, 0.375F});
  };
  if (kind == "resnet34") {
    fold("conv1");
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 1; stage <= 4; ++stage) {
      for (int block = 0; block < blocks[stage - 1]; ++block) {
        const std::string name = "layer" + std::to_string(stage) + "." + std::to_string(block);
        fold(name + ".conv1");
        fold(name + ".conv2");
        if (stage > 1 && block == 0) fold(name + ".downsample");
      }
    }
    add_counting(plan, "fc.weight", {3, 2});
    add_counting(plan, "fc.bias", {3});
  } else {
    fold("stem");
    for (int block = 0; block < 17; ++block) {
      const std::string name = "blocks." + std::to_string(block);
      if (block > 0) fold(name + ".expand");
      fold(name + ".depthwise");
      fold(name + ".project");
    }
    fold("head");
    add_counting(plan, "classifier.weight", {3, 2});
    add_counting(plan, "classifier.bias", {3});
  }
  plan.description.config = ModelConfig{"gptrs", "{\"kind\":\"" + kind + "\",\"config\":{\"num_classes\":3}}"};
  return plan;
}

class VisionModel : public ::testing::TestWithParam<const char*> {};

TEST_P(VisionModel, ComesBackBitByBitThroughItsIdentityNorms) {
  WritePlan plan = small_vision_model(GetParam());
  const auto before = draw_plan(plan);
  const std::string config = plan.description.config->text;
  const HuggingFaceReport there = to_huggingface(plan);
  EXPECT_EQ(there.config_text, "");  // torchvision has none
  plan.description.config.reset();
  const HuggingFaceReport back = to_gptrs(plan);
  EXPECT_EQ(back.kind, GetParam());
  EXPECT_EQ(back.config_text, config);
  EXPECT_EQ(draw_plan(plan), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VisionModel, ::testing::Values("resnet34", "mobilenet_v2"));

TEST(Vision, ExportsTheNamesOfTorchvision) {
  WritePlan plan = small_vision_model("mobilenet_v2");
  to_huggingface(plan);
  const auto drawn = draw_plan(plan);
  // 52 convolutions with five tensors of a norm each, and the classifier: as torchvision's state dict.
  EXPECT_EQ(drawn.size(), 52U * 6 + 2);
  for (const char* name : {"features.0.0.weight", "features.1.conv.0.1.running_var", "features.1.conv.1.weight",
                           "features.17.conv.3.num_batches_tracked", "features.18.1.bias", "classifier.1.weight"}) {
    EXPECT_TRUE(drawn.contains(name)) << name;
  }
  const float variance = drawn_values(drawn.at("features.1.conv.0.1.running_var"))[0];
  EXPECT_EQ(1.0F / std::sqrt(variance + kBatchNormEpsilon), 1.0F);
}

TEST(Vision, FoldsABatchNormWithOneRoundingPerOperation) {
  WritePlan plan = small_vision_model("resnet34");
  to_huggingface(plan);
  plan.description.config.reset();
  const std::map<std::string, std::vector<float>> norm = {{"bn1.weight", {1.7F, -0.3F}},
                                                          {"bn1.bias", {0.2F, 5.0F}},
                                                          {"bn1.running_mean", {0.11F, -2.0F}},
                                                          {"bn1.running_var", {0.37F, 1e-6F}}};
  for (size_t i = 0; i < plan.providers.size(); ++i) {
    const auto found = norm.find(plan.description.tensors[i].name);
    if (found == norm.end()) continue;
    plan.providers[i] = [&values = found->second](ByteSink& sink) {
      return sink.write(std::as_bytes(std::span(values)));
    };
  }
  const auto weight = drawn_values(draw_plan(plan).at("conv1.weight"));
  to_gptrs(plan);
  const auto after = draw_plan(plan);
  const auto folded = drawn_values(after.at("conv1.weight"));
  const auto bias = drawn_values(after.at("conv1.bias"));
  for (size_t channel = 0; channel < 2; ++channel) {
    const volatile float sum = norm.at("bn1.running_var")[channel] + 1e-5F;
    const volatile float root = std::sqrt(sum);
    const volatile float inverse = 1.0F / root;
    const volatile float scale = norm.at("bn1.weight")[channel] * inverse;
    const volatile float centred = 0.0F - norm.at("bn1.running_mean")[channel];
    const volatile float scaled = centred * scale;
    EXPECT_EQ(bias[channel], scaled + norm.at("bn1.bias")[channel]);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(folded[channel * 2 + i], weight[channel * 2 + i] * scale);
  }
}

TEST(Vision, TurnsAClassifierThatLiesTheOtherWay) {
  WritePlan plan = small_vision_model("resnet34");
  const auto place = std::ranges::find(plan.description.tensors, "fc.weight", &TensorInfo::name);
  place->shape = Shape{2, 3};  // gpt.rs takes it for [in, out], as the bias has 3
  to_huggingface(plan);
  EXPECT_EQ(draw_plan(plan).at("fc.weight").shape, (Shape{3, 2}));
}

TEST(Vision, HasNoConfigJson) {
  WritePlan plan = small_vision_model("resnet34");
  std::vector<std::string> notes;
  HuggingFaceOptions options;
  options.config_wanted = true;
  const auto report = gptrs_to_huggingface(plan, options, notes);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("torchvision's resnet34 has no config.json"));
}

TEST(Vision, RefusesAnIncompleteModelAndNormsOfOtherSizes) {
  WritePlan whole = small_vision_model("resnet34");
  to_huggingface(whole);
  whole.description.config.reset();
  WritePlan cut;
  WritePlan wrong;
  for (size_t i = 0; i < whole.providers.size(); ++i) {
    TensorInfo info = whole.description.tensors[i];
    if (!info.name.starts_with("layer4.2.")) cut.add_tensor(info, whole.providers[i]);
    if (info.name == "bn1.running_var") info.shape = Shape{1, 2};
    wrong.add_tensor(info, whole.providers[i]);
  }
  EXPECT_EQ(error_of_gptrs(cut), "a resnet34 has 74 tensors in gpt.rs, this one has 70");
  EXPECT_THAT(error_of_gptrs(wrong),
              HasSubstr("\"bn1.running_var\" is f32 [1, 2]; a batch norm is folded where it is"));
}

}  // namespace
}  // namespace ballast::testing
