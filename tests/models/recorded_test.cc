// The models against what the real gpt.rs computed with the same files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ballast/backends/backends.h"
#include "ballast/engine/generator.h"
#include "ballast/models/model.h"
#include "ballast/models/random_image.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/recorded_models.h"
#include "tests/support/sha256.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// gpt.rs itself is up to 6e-6 away from an f64 computation of these logits, which reach 6.
constexpr double kTextTolerance = 2e-5;
// Activations inside a model reach hundreds, where one ulp of f32 is 3.1e-5. Below 128 two are less than the tolerance.
constexpr int kActivationUlps = 2;
// Logits of image models reach 10; gpt.rs and PyTorch are 1e-5 apart.
constexpr double kImageTolerance = 2e-4;

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend* backend : backends_to_test()) names.emplace_back(backend->name);
  return names;
}

class OnBackend : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LoadedModel> load(const std::string& path) { return load_or_die(path, {.backend = GetParam()}); }
};

INSTANTIATE_TEST_SUITE_P(Every, OnBackend, ::testing::ValuesIn(backend_names()),
                         [](const auto& name) { return name.param; });

TEST_P(OnBackend, LogitsOfTextModelsAreThoseOfGptRs) {
  for (const RecordedForward& run : recorded_forwards()) {
    const auto model = load(recorded_model_path(run.model));
    const auto logits = model->forward(TokenInput{run.tokens});
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_LE(largest_difference(*logits, recorded_tensor(run.model + "/" + run.file, "logits")), kTextTolerance)
        << run.model << " " << run.file;
  }
}

// Every output that the model shows, by name.
class Outputs final : public TraceSink {
 public:
  Status on_output(std::string_view name, std::string_view, const Tensor& output) override {
    order_.emplace_back(name);
    outputs_.insert_or_assign(std::string(name), output);
    return {};
  }
  const Tensor* find(const std::string& name) const {
    const auto at = outputs_.find(name);
    return at == outputs_.end() ? nullptr : &at->second;
  }
  const std::vector<std::string>& order() const { return order_; }

 private:
  std::vector<std::string> order_;
  std::map<std::string, Tensor> outputs_;
};

// What gpt.rs shows of a ministral model, in order.
std::vector<std::string> ministral_activations(int layers) {
  std::vector<std::string> names = {"tok_embeddings"};
  for (int i = 0; i < layers; ++i) {
    for (const char* part : {"norm_1", "attention.qkv", "attention.qkv_rope", "attention.context", "attention.output",
                             "residual", "norm_2", "feed_forward.output", "output"}) {
      names.push_back("blocks." + std::to_string(i) + "." + part);
    }
  }
  names.insert(names.end(), {"final_norm", "logits"});
  return names;
}

TEST(RecordedTensors, DifferInLargeNumbersByMoreThanUlps) {
  Workspace workspace;
  const auto difference = [&](float computed, float recorded, int free_ulps) {
    return largest_difference(*workspace.from(std::vector<float>{computed}, {1}), {{1}, {recorded}}, free_ulps);
  };
  constexpr float kUlp = 0x1p-15F;  // from 256 to 512
  EXPECT_GT(difference(300 + kUlp, 300, 0), kTextTolerance);
  EXPECT_EQ(difference(300 + 2 * kUlp, 300, 2), 0);
  EXPECT_EQ(difference(-300 - 2 * kUlp, -300, 2), 0);
  EXPECT_EQ(difference(300 + 3 * kUlp, 300, 2), 3 * static_cast<double>(kUlp));
  EXPECT_GT(difference(1.00003F, 1, 2), kTextTolerance) << "small numbers are compared as strictly as before";
  EXPECT_TRUE(std::isnan(difference(std::nanf(""), 300, 2)));
}

// Tensor cores cut off what they add to a larger sum: next to values of hundreds, a small one may be off by two units
// in the last place of the largest, and never by more than twice what is allowed elsewhere.
double activation_tolerance(std::string_view backend, const RecordedTensor& recorded) {
  if (backend != "cuda") return kTextTolerance;
  float largest = 0;
  for (const float value : recorded.values) largest = std::max(largest, std::abs(value));
  const double unit = std::nextafter(largest, INFINITY) - largest;
  return std::clamp(2 * unit, kTextTolerance, 2 * kTextTolerance);
}

TEST_P(OnBackend, ActivationsOfMinistralAreThoseOfGptRs) {
  const std::pair<std::string, std::vector<TokenId>> kRuns[] = {{"ministral_yarn", {1, 22, 300, 4, 4}},
                                                                {"ministral_linear", {9, 8, 7}}};
  for (const auto& [name, tokens] : kRuns) {
    const auto model = load(recorded_model_path(name));
    Outputs outputs;
    model->context().trace = &outputs;
    ASSERT_TRUE(model->forward(TokenInput{tokens}));
    model->context().trace = nullptr;
    const auto names = ministral_activations(2);
    ASSERT_EQ(names.size(), 21U);
    EXPECT_THAT(outputs.order(), ::testing::IsSupersetOf(names));
    for (const std::string& activation : names) {
      ASSERT_NE(outputs.find(activation), nullptr) << activation;
      const RecordedTensor recorded = recorded_tensor(name + "/trace.gptrsten", activation);
      EXPECT_LE(largest_difference(*outputs.find(activation), recorded, kActivationUlps),
                activation_tolerance(GetParam(), recorded))
          << name << " " << activation;
    }
  }
}

TEST_P(OnBackend, TheLastHiddenStateOfGptIsThatOfGptRs) {
  const std::pair<std::string, std::vector<TokenId>> kRuns[] = {
      {"gpt_base", {5, 17, 300, 2}}, {"gpt_wide", {319, 0, 77}}, {"gpt_micro", {1, 2, 3, 18}}};
  for (const auto& [name, tokens] : kRuns) {
    const auto model = load(recorded_model_path(name));
    Outputs outputs;
    model->context().trace = &outputs;
    ASSERT_TRUE(model->forward(TokenInput{tokens}));
    model->context().trace = nullptr;
    const std::string last = "final_ln";
    ASSERT_NE(outputs.find(last), nullptr);
    EXPECT_LE(largest_difference(*outputs.find(last), recorded_tensor(name + "/trace.gptrsten", "final_hidden")),
              kTextTolerance)
        << name;
  }
}

// ---------------------------------------------------------------- writing

std::vector<TokenId> write(LoadedModel& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                           const RecordedTensor* steps = nullptr) {
  auto generator = Generator::start(*model.as_causal_lm(), model.context(), prompt, options);
  EXPECT_TRUE(generator) << generator.error().message;
  for (size_t step = 0;; ++step) {
    const auto token = generator->next();
    EXPECT_TRUE(token) << token.error().message;
    if (!token || !*token) break;
    if (steps == nullptr) continue;
    const size_t width = steps->dims[1];
    const RecordedTensor row{{1, width},
                             {steps->values.begin() + static_cast<ptrdiff_t>(step * width),
                              steps->values.begin() + static_cast<ptrdiff_t>((step + 1) * width)}};
    EXPECT_LE(largest_difference(generator->logits(), row), kTextTolerance) << "step " << step;
  }
  const auto tokens = generator->tokens();
  return {tokens.begin() + static_cast<ptrdiff_t>(prompt.size()), tokens.end()};
}

GenerateOptions greedy(const RecordedText& text) {
  GenerateOptions options;
  options.max_tokens = text.written.size();
  options.sampling.temperature = 0;
  options.context_shift = true;  // gpt.rs always does
  return options;
}

TEST_P(OnBackend, GreedyTextsAreThoseOfGptRs) {
  for (const RecordedText& text : recorded_texts()) {
    const auto model = load(recorded_model_path(text.model));
    const bool has_steps = !text.steps.empty();
    const RecordedTensor steps =
        has_steps ? recorded_tensor(text.model + "/" + text.steps, "step_logits") : RecordedTensor{};
    GenerateOptions options = greedy(text);
    EXPECT_EQ(write(*model, text.prompt, options, has_steps ? &steps : nullptr), text.written) << text.model;
    options.kv_cache = false;
    EXPECT_EQ(write(*model, text.prompt, options), text.written) << text.model << " without a cache";
    options.kv_cache = true;
    for (const uint64_t capacity : text.capacities) {
      options.cache_capacity = capacity;
      EXPECT_EQ(write(*model, text.prompt, options), text.written) << text.model << " capacity " << capacity;
    }
  }
}

TEST(RecordedModels, TwoTextsGoPastTheContext) {
  size_t past = 0;
  for (const RecordedText& text : recorded_texts()) {
    const auto model = load_or_die(recorded_model_path(text.model));
    past += text.prompt.size() + text.written.size() > model->as_causal_lm()->context_length() + 1 ? 1 : 0;
  }
  EXPECT_GE(past, 2U);
}

// ---------------------------------------------------------------- images

struct ImageRun {
  uint64_t seed, batch, size;
};
constexpr ImageRun kImageRuns[] = {{0, 1, 64}, {5, 2, 97}, {0, 1, 224}, {3, 1, 32}};

Tensor noise(LoadedModel& model, const ImageRun& run) {
  const Dims dims{run.batch, 3, run.size, run.size};
  return std::move(*model.workspace().from(seeded_normals(run.seed, dims.count()), dims));
}

// The reference takes seconds for one image of full size.
bool is_quick(const std::string& backend, const ImageRun& run) { return backend != "reference" || run.size <= 64; }

TEST_P(OnBackend, LogitsOfImageModelsAreThoseOfGptRs) {
  const TempFolder folder;
  const std::pair<std::string, std::string> kDigests[] = {
      {"resnet34", "88f9cada606648ea2c76d753104a6f5759d714c5b90bdfc9ca4ee61e70c873b0"},
      {"mobilenet_v2", "99ea9a42a29f60891214913ebcb5c617f403d32ea71a91fcea19c222603ac07d"}};
  for (const auto& [kind, digest] : kDigests) {
    const std::string path = write_rule_checkpoint(folder, kind, 1);
    ASSERT_EQ(sha256_hex(as_bytes(read_text_file(path))), digest) << "the checkpoint is not that of gpt.rs";
    const auto model = load(path);
    for (size_t i = 0; i < std::size(kImageRuns); ++i) {
      if (!is_quick(GetParam(), kImageRuns[i])) continue;
      const auto logits = model->forward(ImageInput{noise(*model, kImageRuns[i])});
      ASSERT_TRUE(logits) << logits.error().message;
      EXPECT_LE(
          largest_difference(*logits, recorded_tensor(kind + "/forward_" + std::to_string(i) + ".gptrsten", "logits")),
          kImageTolerance)
          << kind << " " << i;
    }
  }
}

TEST(SeededNormals, AreThoseOfGptRs) {
  const auto zero = seeded_normals(0, 6);
  EXPECT_THAT(zero, ::testing::ElementsAre(-0.23407326638698578F, -0.8901543617248535F, -0.7754630446434021F,
                                           0.16862733662128448F, -0.36594048142433167F, -1.1059558391571045F));
  EXPECT_FLOAT_EQ(seeded_normals(1, 1)[0], -0.895410358905792F);
  EXPECT_EQ(seeded_normals(1, 5).size(), 5U);
}

}  // namespace
}  // namespace ballast::testing
