#include "ballast/text/generation_defaults.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

SamplerOptions sampling_of(const std::string& config) {
  const auto found = sampling_in_config(config, "generation_config.json");
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  EXPECT_TRUE(found && *found) << config;
  return found && *found ? **found : SamplerOptions();
}

TEST(GenerationDefaults, ComeFromGenerationConfig) {
  const SamplerOptions drawn = sampling_of(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": null, "repetition_penalty": 1.05})");
  EXPECT_EQ(drawn.temperature, 0.6);
  EXPECT_EQ(drawn.top_k, 20U);
  EXPECT_EQ(drawn.top_p, 0.95);
  EXPECT_EQ(drawn.min_p, 0);
  EXPECT_EQ(drawn.repetition_penalty, 1.05);
  EXPECT_EQ(sampling_of(R"({"do_sample": true})").temperature, 1);
  EXPECT_EQ(sampling_of(R"({"do_sample": false, "temperature": 0.6})").temperature, 0);
  EXPECT_EQ(sampling_of(R"({"temperature": 0.6})").temperature, 0.6);
  const auto silent = sampling_in_config(R"({"bos_token_id": 1, "eos_token_id": 2})", "x");
  ASSERT_TRUE(silent);
  EXPECT_FALSE(*silent);
}

// transformers knows no window, and a GGUF file made from such a folder must choose the same tokens.
TEST(GenerationDefaults, APenaltyOfTheModelsFilesLooksAtTheWholeContext) {
  EXPECT_EQ(sampling_of(R"({"repetition_penalty": 1.05})").repetition_window, kWholeContext);
  Description description;
  const auto window_with = [&](double last_n) {
    description.metadata = {{"general.sampling.penalty_repeat", 1.2}, {"general.sampling.penalty_last_n", last_n}};
    return (*sampling_in_metadata(description, "x.gguf"))->repetition_window;
  };
  EXPECT_EQ(window_with(32), 32U);
  EXPECT_EQ(window_with(-1), kWholeContext);
  EXPECT_EQ(window_with(0), 0U);
  description.metadata.pop_back();
  EXPECT_EQ((*sampling_in_metadata(description, "x.gguf"))->repetition_window, kWholeContext);
}

TEST(GenerationDefaults, ThatCannotBeNameTheFile) {
  for (const char* config : {R"({"do_sample": true, "temperature": -1})", R"({"top_p": 0})", R"({"top_p": "high"})",
                             R"({"top_k": -1})", R"({"temperature": NaN})", "[]", "{"}) {
    const auto found = sampling_in_config(config, "folder/generation_config.json");
    ASSERT_FALSE(found) << config;
    EXPECT_THAT(found.error().message, HasSubstr("folder/generation_config.json")) << config;
  }
}

TEST(GenerationDefaults, ComeFromTheMetadataOfAGgufFile) {
  Description description;
  description.metadata = {{"general.sampling.temp", 0.5},
                          {"general.sampling.top_k", int64_t{40}},
                          {"general.sampling.top_p", 0.9},
                          {"general.sampling.min_p", 0.1},
                          {"general.sampling.sequence", std::string("kpt")},
                          {"general.sampling.penalty_repeat", 1.2}};
  const auto found = sampling_in_metadata(description, "x.gguf");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->temperature, 0.5);
  EXPECT_EQ((*found)->top_k, 40U);
  EXPECT_EQ((*found)->top_p, 0.9);
  EXPECT_EQ((*found)->min_p, 0.1);
  EXPECT_EQ((*found)->repetition_penalty, 1.2);
  description.metadata = {{"general.sampling.top_k", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_EQ((*sampling_in_metadata(description, "x"))->top_k, 0U);
  description.metadata = {{"general.sampling.temp", -3.0}};
  EXPECT_THAT(sampling_in_metadata(description, "x.gguf").error().message, HasSubstr("x.gguf"));
  description.metadata = {{"general.name", std::string("x")}};
  EXPECT_FALSE(*sampling_in_metadata(description, "x"));
}

TEST(GenerationDefaults, OfAModelThatSaysNothingAreTheUsualOnes) {
  const TempFolder folder;
  const auto found = find_sampling_defaults(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->temperature, usual_sampling(false).temperature);
  EXPECT_EQ(found->repetition_penalty, 1);  // a penalty garbles answers that quote the question
  folder.write("chat_template.jinja", "{{ messages[0].content }}");
  EXPECT_EQ(find_sampling_defaults(folder.path())->temperature, 0);
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 0.25})");
  EXPECT_EQ(find_sampling_defaults(folder.path())->temperature, 0.25);
  EXPECT_EQ(find_sampling_defaults(folder.path("model.gguf"))->temperature, 0.25);
}

}  // namespace
}  // namespace ballast::testing
