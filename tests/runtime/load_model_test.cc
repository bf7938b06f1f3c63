#include "ballast/runtime/load_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/engine/generator.h"
#include "ballast/formats/drivers.h"
#include "ballast/models/kind_config.h"
#include "ballast/models/model.h"
#include "ballast/ops/activation.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<TokenId> kTokens = {1, 2, 3, 18};

std::vector<float> logits_of(LoadedModel& model, const std::vector<TokenId>& tokens = kTokens) {
  const auto logits = model.forward(TokenInput{tokens});
  EXPECT_TRUE(logits) << logits.error().message;
  return logits ? read_floats(*logits) : std::vector<float>();
}

std::string forward_failure(LoadedModel& model, const ModelInput& input) {
  const auto logits = model.forward(input);
  EXPECT_FALSE(logits);
  return logits ? "" : logits.error().message;
}

std::vector<float> plain_logits() { return logits_of(*load_or_die(recorded_model_path("gpt_micro"))); }

// ---------------------------------------------------------------- files of gpt.rs, changed by hand

std::string variant(const std::string& name) { return test_file_path("gptrs/variants/" + name + ".gptrs"); }

TEST(LoadModel, RunsEveryVariantThatGptRsRuns) {
  const std::vector<float> plain = plain_logits();
  for (const char* name : {"overrides_valid", "streaming_budget", "runtime_null", "config_extra_keys", "ids_nonzero",
                           "reserved_one", "reverse_order", "extra_i32", "trailing_garbage"}) {
    EXPECT_EQ(logits_of(*load_or_die(variant(name))), plain) << name;
  }
}

TEST(LoadModel, RunsFilesFromBeforeThereWereKindsAsGpt) {
  const std::vector<float> plain = plain_logits();
  for (const char* name : {"untagged_legacy", "v1_sequential"}) {
    const auto model = load_or_die(variant(name));
    EXPECT_EQ(model->kind(), "gpt");
    EXPECT_EQ(logits_of(*model), plain) << name;
  }
}

TEST(LoadModel, RefusesEveryVariantThatIsBroken) {
  const std::pair<const char*, const char*> kCauses[] = {
      {"ids_wrong", "blocks.0.attention.w_qkv"}, {"name_non_ascii", "ASCII"},  {"rank0_used", "shape []"},
      {"missing_tensor", "final_ln.beta"},       {"truncated_payload", "cut"}, {"version_3", "version 3"}};
  for (const auto& [name, cause] : kCauses) {
    EXPECT_THAT(load_failure(variant(name)), AllOf(HasSubstr(name), HasSubstr(cause)));
  }
}

TEST(LoadModel, TakesTheLastOfTwoTensorsOfOneNameAsGptRsDoes) {
  const auto model = load_or_die(variant("duplicate_last_differs"));
  const auto logits = model->forward(TokenInput{kTokens});
  ASSERT_TRUE(logits);
  const std::vector<float> all = read_floats(*logits);
  ASSERT_EQ(all.size(), 4U * 19);
  const float* last = all.data() + 3 * 19;
  EXPECT_EQ(std::max_element(last, last + 19) - last, 6);
  EXPECT_NEAR(last[6], 21.570879, 1e-4);
}

TEST(LoadModel, HonoursTheBudgetOfTheConfig) {
  const auto model = load_or_die(variant("streaming_budget"));
  logits_of(*model);
  const ResidencyStats stats = model->residency();
  EXPECT_GT(stats.budget, 0U);
  EXPECT_LT(stats.budget, model->report().param_bytes);
  EXPECT_LE(stats.peak, stats.budget);
  EXPECT_EQ(load_or_die(recorded_model_path("gpt_micro"))->residency().budget, 0U);
}

// ---------------------------------------------------------------- configs

std::string micro_config(const std::string& fields, const std::string& runtime = "{}") {
  return fmt::format(R"({{"kind":"gpt","config":{{"vocab_size":19,"context_length":12,"embed_dim":8,"num_layers":2,)"
                     R"("num_heads":2,"mlp_ratio":2,"dropout":0.0{}}},"runtime":{}}})",
                     fields, runtime);
}

LoadOptions with_config(const std::string& text) {
  LoadOptions options;
  options.config_text = text;
  return options;
}

TEST(LoadModel, NamesAParameterOfTheWrongShapeAndBothShapes) {
  EXPECT_THAT(load_failure(recorded_model_path("gpt_micro"), with_config(micro_config(R"(,"vocab_size":20)"))),
              AllOf(HasSubstr("tok_embeddings.weight"), HasSubstr("[19, 8]"), HasSubstr("[20, 8]")));
}

TEST(LoadModel, RefusesSizesThatNoTextModelHas) {
  const std::pair<const char*, const char*> kConfigs[] = {{R"(,"vocab_size":0)", "vocab_size"},
                                                          {R"(,"embed_dim":0)", "embed_dim"},
                                                          {R"(,"num_layers":0)", "num_layers"},
                                                          {R"(,"num_layers":1000000000000)", "num_layers"},
                                                          {R"(,"num_heads":3)", "does not divide"},
                                                          {R"(,"mlp_ratio":9000000000000000000)", "mlp_ratio"},
                                                          {R"(,"context_length":0)", "context 0"},
                                                          {R"(,"dropout":1.5)", "dropout is 1.5"},
                                                          {R"(,"gelu":"cubic")", "is \"cubic\": erf or tanh"}};
  for (const auto& [fields, named] : kConfigs) {
    EXPECT_THAT(load_failure(recorded_model_path("gpt_micro"), with_config(micro_config(fields))),
                AllOf(HasSubstr("config of the gpt model"), HasSubstr(named)));
  }
}

TEST(LoadModel, NamesAParameterThatIsMissing) {
  EXPECT_THAT(load_failure(recorded_model_path("gpt_micro"), with_config(micro_config(R"(,"num_layers":3)"))),
              HasSubstr("blocks.2.attention.w_qkv"));
}

TEST(LoadModel, AMissingParameterIsNoMissingFile) {
  const auto options = with_config(micro_config(R"(,"num_layers":3)"));
  EXPECT_EQ(load_model(recorded_model_path("gpt_micro"), options).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(load_model("nowhere.gptrs", options).error().code, ErrorCode::kNotFound);
}

TEST(LoadModel, NamesTheNearestTensorForAParameterThatIsMissing) {
  const Archive file = *open_archive(recorded_model_path("gpt_micro"));
  WritePlan plan = make_plan(file);
  for (TensorInfo& tensor : plan.description.tensors) {
    if (tensor.name == "blocks.1.ln_1.gamma") tensor.name = "blocks.1.ln_1.gama";
  }
  const TempFolder folder;
  const auto written = write_archive(folder.path("misspelt.gptrs"), kGptrsCheckpointDriver, plan);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_THAT(load_failure(folder.path("misspelt.gptrs")),
              AllOf(HasSubstr("misspelt.gptrs"), HasSubstr("no parameter \"blocks.1.ln_1.gamma\""),
                    HasSubstr("blocks.1.ln_1.gama\"?")));
}

TEST(LoadModel, ReportsTensorsThatTheModelDoesNotAskFor) {
  const auto model = load_or_die(variant("extra_i32"));
  EXPECT_EQ(model->report().params, 29U);
  EXPECT_EQ(model->report().unused.size(), 3U);
  EXPECT_TRUE(load_or_die(recorded_model_path("gpt_micro"))->report().unused.empty());
}

TEST(LoadModel, ListsTheKindsThereAreForOneThereIsNot) {
  EXPECT_THAT(load_failure(recorded_model_path("gpt_micro"), with_config(R"({"kind":"gtp","config":{}})")),
              AllOf(HasSubstr("\"gtp\""), HasSubstr("gpt, ministral, resnet34, mobilenet_v2")));
}

TEST(LoadModel, SaysWhatAFileWithoutAConfigLacks) {
  EXPECT_THAT(load_failure(test_file_path("gptrs/archives/one.gptrsten")), HasSubstr("no model config"));
}

TEST(LoadModel, RefusesStreamingKnobsThatContradictThemselves) {
  const std::string path = recorded_model_path("gpt_micro");
  EXPECT_THAT(load_failure(path, with_config(micro_config(
                                     "", R"({"weight_streaming":{"enabled":false,"device_budget_bytes":5}})"))),
              HasSubstr("enabled"));
  EXPECT_THAT(load_failure(path, with_config(micro_config(
                                     "", R"({"weight_streaming":{"enabled":true,"device_weights_percent":1.5}})"))),
              HasSubstr("between 0 and 1"));
}

TEST(LoadModel, TakesTheGeluThatTheConfigNames) {
  const std::string path = recorded_model_path("gpt_micro");
  const auto erf = logits_of(*load_or_die(path, with_config(micro_config(R"(,"gelu":"erf")"))));
  EXPECT_EQ(erf, plain_logits());
  const auto tanh = logits_of(*load_or_die(path, with_config(micro_config(R"(,"gelu":"tanh")"))));
  EXPECT_NE(tanh, erf);
  double largest = 0;
  for (size_t i = 0; i < erf.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(erf[i] - tanh[i])));
  EXPECT_LT(largest, 0.05);
  EXPECT_THAT(load_failure(path, with_config(micro_config(R"(,"gelu":"fast")"))), HasSubstr("erf or tanh"));
}

TEST(LoadModel, RefusesConfigsWhoseNumbersMakeNoModel) {
  const std::string path = recorded_model_path("gpt_micro");
  for (const char* fields : {R"(,"num_heads":3)", R"(,"num_heads":0)", R"(,"embed_dim":0)", R"(,"embed_dim":-8)",
                             R"(,"vocab_size":1e3)", R"(,"num_layers":"two")"}) {
    EXPECT_NE(load_failure(path, with_config(micro_config(fields))), "") << fields;
  }
  const std::string heads = R"({"kind":"ministral","config":{"vocab_size":19,"context_length":12,"embed_dim":8,)"
                            R"("num_layers":1,"num_heads":8589934592,"num_kv_heads":8589934592,"head_dim":2147483648,)"
                            R"("mlp_hidden_dim":8,"rms_norm_eps":1e-5,"rope_theta":1e4,"rotary_dim":2}})";
  EXPECT_THAT(load_failure(path, with_config(heads)), HasSubstr("head_dim"));
}

// ---------------------------------------------------------------- bad input

TEST(LoadModel, StaysUsableAfterInputThatDoesNotFit) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"));
  EXPECT_THAT(forward_failure(*model, TokenInput{{1, 19}}),
              AllOf(HasSubstr("token 19 at position 1"), HasSubstr("vocabulary of 19")));
  EXPECT_THAT(forward_failure(*model, TokenInput{std::vector<TokenId>(13, 1)}),
              AllOf(HasSubstr("13 tokens"), HasSubstr("context of 12")));
  EXPECT_THAT(forward_failure(*model, TokenInput{}), HasSubstr("at least one"));
  const auto pixels = model->workspace().zeros({1, 3, 4, 4});
  EXPECT_THAT(forward_failure(*model, ImageInput{*pixels}), HasSubstr("takes tokens, not an image"));
  EXPECT_EQ(logits_of(*model), plain_logits());
}

TEST(LoadModel, ANotANumberAmongTheWeightsShowsAndStopsTheText) {
  const TempFolder folder;
  const std::string path = write_changed_model(folder, "gpt_micro", [](WritePlan& plan) {
    const size_t index = tensor_index(plan, "lm_head");
    plan.providers[index] = [original = plan.providers[index]](ByteSink& sink) -> Status {
      MemorySink memory;
      BALLAST_CHECK(original(memory));
      ByteVector bytes = memory.take();
      const float nan = std::nanf("");
      std::memcpy(bytes.data(), &nan, sizeof nan);
      return sink.write(bytes);
    };
  });
  const auto model = load_or_die(path);
  const auto logits = model->forward(TokenInput{kTokens});
  ASSERT_TRUE(logits);
  const std::vector<float> values = read_floats(*logits);
  ASSERT_GE(values.size(), 2U);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_FALSE(std::isnan(values[1]));
  auto generator = Generator::start(*model->as_causal_lm(), model->context(), kTokens, {});
  ASSERT_TRUE(generator);
  const auto token = generator->next();
  ASSERT_FALSE(token);
  EXPECT_THAT(token.error().message, HasSubstr("the logit of token 0 is nan"));
}

TEST(LoadModel, NamesAFileThatWasCutBetweenOpeningAndTouchingIt) {
  for (const bool budget : {false, true}) {
    const TempFolder folder;
    const std::string content = read_text_file(recorded_model_path("gpt_micro"));
    const std::string path = folder.write("model.gptrs", content);
    LoadOptions options;
    if (budget) options.param_budget_fraction = 1.0;
    const auto model = load_or_die(path, options);
    std::filesystem::resize_file(path, content.size() / 2);
    EXPECT_THAT(forward_failure(*model, TokenInput{kTokens}), HasSubstr("model.gptrs")) << "budget " << budget;
    // The same bytes in the same file: the model goes on.
    folder.write("model.gptrs", content);
    if (budget) {
      EXPECT_EQ(logits_of(*model), plain_logits());
    }
  }
}

// ---------------------------------------------------------------- kinds from outside

class Echo final : public Model {
 public:
  explicit Echo(Param table) : table_(std::move(table)) {}
  static Result<std::unique_ptr<Model>> build(const KindConfig&, ParamLoader& params) {
    BALLAST_TRY(Param table, params.get_rank("tok_embeddings.weight", 2));
    return std::unique_ptr<Model>(std::make_unique<Echo>(std::move(table)));
  }
  std::string_view kind() const override { return "echo"; }
  Result<Tensor> forward(Context& context, const ModelInput& input) const override {
    return ops::embedding_lookup(context, table_, std::get<TokenInput>(input).ids);
  }

 private:
  Param table_;
};

TEST(LoadModel, RunsAKindThatAnOutsideProgramAdds) {
  const ModelKind kinds[] = {{"echo", "gives back its embeddings", Echo::build}};
  LoadOptions options = with_config(R"({"kind":"echo"})");
  options.more_kinds = kinds;
  const auto model = load_or_die(recorded_model_path("gpt_micro"), options);
  EXPECT_EQ(model->kind(), "echo");
  EXPECT_EQ(model->as_causal_lm(), nullptr);
  EXPECT_TRUE(model->capabilities().empty());
  const auto rows = model->forward(TokenInput{{2, 5}});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->dims(), (Dims{2, 8}));
  EXPECT_EQ(model->report().unused.size(), 28U);
}

// Takes the parameters that its config lists, and nothing more.
class Taker final : public Model {
 public:
  static Result<std::unique_ptr<Model>> build(const KindConfig& config, ParamLoader& params) {
    const std::string_view text = config.text;
    std::string_view names = text.substr(1, text.size() - 2);  // a JSON string: names with spaces between them
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(' '));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      BALLAST_CHECK(params.get_rank(std::string(name), 1));
    }
    return std::unique_ptr<Model>(std::make_unique<Taker>());
  }
  std::string_view kind() const override { return "taker"; }
  Result<Tensor> forward(Context& context, const ModelInput&) const override { return context.workspace().zeros({1}); }
};

TEST(ParamNames, OfAModelAreUniqueAndWellFormed) {
  const ModelKind kinds[] = {{"taker", "takes parameters", Taker::build}};
  const auto failure = [&](const std::string& names) {
    LoadOptions options = with_config(R"({"kind":"taker","config":")" + names + R"("})");
    options.more_kinds = kinds;
    return load_failure(recorded_model_path("gpt_micro"), options);
  };
  EXPECT_THAT(failure("final_ln.beta final_ln.gamma final_ln.beta"), HasSubstr("parameter \"final_ln.beta\" twice"));
  for (const char* name : {"final_ln..beta", ".final_ln", "final_ln.",
                           "gr\xC3\xB6\xC3\x9F"
                           "e"})
    EXPECT_THAT(failure(name), HasSubstr("is no parameter name")) << name;
  LoadOptions options = with_config(R"({"kind":"taker","config":"final_ln.beta final_ln.gamma"})");
  options.more_kinds = kinds;
  EXPECT_EQ(load_or_die(recorded_model_path("gpt_micro"), options)->report().params, 2U);
}

// ---------------------------------------------------------------- overrides

LoadOptions with_override(const std::string& key, const std::string& policy) {
  LoadOptions options;
  options.overrides = {{key, policy}};
  return options;
}

TEST(LoadModel, RefusesOverridesOfWhatThereIsNotAndNamesWhatIsNear) {
  const std::string path = recorded_model_path("gpt_micro");
  EXPECT_THAT(load_failure(path, with_override("gpt_rs::ops::functional::linalg::matmull", "benchmark")),
              HasSubstr("gpt_rs::ops::functional::linalg::matmul"));
  EXPECT_THAT(load_failure(path, with_override("gelu", "force=gelu_y")), HasSubstr("did you mean \"gelu_x\""));
  EXPECT_THAT(load_failure(path, with_override("gelu", "fastest")), AllOf(HasSubstr("gelu"), HasSubstr("fastest")));
  EXPECT_THAT(load_failure(path, with_config(micro_config("", R"({"functional_overrides":{"relu7":"benchmark"}})"))),
              HasSubstr("relu7"));
}

// A gelu that does nothing at all, so that one can see that it ran.
Status add_no_gelu(Registry& registry) {
  Implementation<ops::GeluArgs> implementation;
  implementation.name = "none";
  implementation.run = [](Context&, const ops::GeluArgs& args) -> Result<Tensor> { return args.x; };
  return registry.add(std::move(implementation));
}

TEST(LoadModel, WhatIsGivenWinsOverTheConfig) {
  const std::string path = recorded_model_path("gpt_micro");
  LoadOptions options = with_config(micro_config("", R"({"functional_overrides":{"gelu":"force=none"}})"));
  options.extend = add_no_gelu;
  EXPECT_NE(logits_of(*load_or_die(path, options)), plain_logits());
  options.overrides = {{"gelu", "force=gelu_x"}};
  EXPECT_EQ(logits_of(*load_or_die(path, options)), plain_logits());
}

TEST(LoadModel, WhatIsGivenUndoesAnOverrideOfTheConfigThatCannotBeDoneHere) {
  const std::string path = recorded_model_path("gpt_micro");
  for (const char* theirs :
       {R"({"gelu":"force=of_another_program"})", R"({"gelu":"fastest"})", R"({"relu7":"benchmark"})",
        R"({"gpt_rs::ops::functional::activation::gelu":"force=missing"})"}) {
    LoadOptions options = with_config(micro_config("", std::string(R"({"functional_overrides":)") + theirs + "}"));
    EXPECT_THAT(load_failure(path, options), HasSubstr("gpt_micro")) << "names the file";
    options.overrides = {{std::string(theirs).find("relu7") == std::string::npos ? "gelu" : "relu7", ""}};
    EXPECT_EQ(logits_of(*load_or_die(path, options)), plain_logits()) << theirs;
  }
}

TEST(LoadModel, ErrorsInsideTheRuntimeSectionNameTheFileTheModelAndTheField) {
  const std::string path = recorded_model_path("gpt_micro");
  const std::string text = load_failure(
      path, with_config(micro_config("", R"({"weight_streaming":{"enabled":false,"prefetch_layers":2}})")));
  EXPECT_THAT(text, AllOf(HasSubstr(path), HasSubstr("config of the gpt model"),
                          HasSubstr("\"runtime.weight_streaming.enabled\""), Not(HasSubstr("unnamed"))));
}

TEST(LoadModel, OverridesHoldForWritingToo) {
  const std::string path = recorded_model_path("gpt_micro");
  LoadOptions without = with_override("gelu", "force=none");
  without.extend = add_no_gelu;
  const auto first_logits = [&](const LoadOptions& options) {
    const auto model = load_or_die(path, options);
    const auto generator = Generator::start(*model->as_causal_lm(), model->context(), kTokens, {});
    EXPECT_TRUE(generator);
    return read_floats(generator->logits());
  };
  const auto last_row = [](const std::vector<float>& all) { return std::vector<float>(all.end() - 19, all.end()); };
  EXPECT_EQ(first_logits(without), last_row(logits_of(*load_or_die(path, without))));
  EXPECT_NE(first_logits(without), first_logits({}));
}

TEST(LoadModel, TwoModelsWithDifferentOverridesRunAtTheSameTime) {
  const std::string path = recorded_model_path("gpt_micro");
  LoadOptions without = with_override("gelu", "force=none");
  without.extend = add_no_gelu;
  without.threads = 1;
  LoadOptions plain;
  plain.threads = 1;
  const auto a = load_or_die(path, without);
  const auto b = load_or_die(path, plain);
  const auto expected_a = logits_of(*a), expected_b = logits_of(*b);
  ASSERT_NE(expected_a, expected_b);
  int wrong_a = 0, wrong_b = 0;
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) wrong_a += logits_of(*a) == expected_a ? 0 : 1;
  });
  for (int i = 0; i < 200; ++i) wrong_b += logits_of(*b) == expected_b ? 0 : 1;
  other.join();
  EXPECT_EQ(wrong_a, 0);
  EXPECT_EQ(wrong_b, 0);
}

TEST(LoadModel, CallsOnOneModelFromTwoThreadsTakeTurns) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"));
  const auto expected = logits_of(*model);
  int wrong = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) logits_of(*model, {5, 6});
  });
  for (int i = 0; i < 100; ++i) wrong += logits_of(*model) == expected ? 0 : 1;
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LoadModel, ABenchmarkPolicyShowsWhatItChose) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"), with_override("layer_norm", "benchmark(cache=4)"));
  EXPECT_EQ(logits_of(*model), plain_logits());
  const auto choices = model->registry().benchmark_choices();
  ASSERT_FALSE(choices.empty());
  EXPECT_EQ(choices[0].implementation, "layer_norm_x_gamma_beta_eps");
}

TEST(LoadModel, NamesTheBackendsForOneThereIsNot) {
  LoadOptions options;
  options.backend = "gpu";
  EXPECT_THAT(load_failure(recorded_model_path("gpt_micro"), options), AllOf(HasSubstr("gpu"), HasSubstr("reference")));
}

TEST(LoadModel, SaysWhatAModelCanDo) {
  EXPECT_THAT(load_or_die(recorded_model_path("gpt_micro"))->capabilities(), ElementsAre("text generation"));
}

}  // namespace
}  // namespace ballast::testing
