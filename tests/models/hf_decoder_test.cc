// Every recorded model of Hugging Face's families against what transformers computed with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "ballast/archive/open.h"
#include "ballast/backends/backends.h"
#include "ballast/engine/forward_past.h"
#include "ballast/params/budget.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// The recordings are f32 themselves, up to 2e-5 away from f64; a wrong epsilon shows from 6e-4 on.
constexpr double kDecoderTolerance = 1e-4;
// Of activations as two bf16 numbers: the low one is rounded by up to 2^-18 of the whole, in every product.
constexpr double kSplitTolerance = 5e-4;

std::vector<std::string> decoder_names() {
  std::vector<std::string> names;
  for (const RecordedDecoder& decoder : recorded_decoders()) names.push_back(decoder.name);
  return names;
}

class HfDecoder : public ::testing::TestWithParam<std::string> {
 protected:
  const RecordedDecoder& recorded() const { return recorded_decoder(GetParam()); }
  std::unique_ptr<LoadedModel> load(const LoadOptions& options = {}) const {
    return load_or_die(recorded().path, options);
  }
};

INSTANTIATE_TEST_SUITE_P(Every, HfDecoder, ::testing::ValuesIn(decoder_names()),
                         [](const auto& name) { return name.param; });

TEST_P(HfDecoder, LogitsAreThoseOfTransformersOnEveryBackend) {
  for (const Backend* backend : backends_to_test()) {
    const auto model = load({.backend = std::string(backend->name), .numerics = Numerics::kExact});
    EXPECT_THAT(model->report().unused, ::testing::IsEmpty());
    double largest = 0;
    for (const RecordedInput& input : recorded().inputs) {
      const auto logits = model->forward(TokenInput{input.ids});
      ASSERT_TRUE(logits) << logits.error().message;
      const double here = recorded().logit_distance(*logits, input);
      EXPECT_LE(here, kDecoderTolerance) << backend->name << ", " << input.ids.size() << " tokens";
      largest = std::max(largest, here);
    }
    RecordProperty("largest_" + std::string(backend->name), std::to_string(largest));
  }
}

// Whose weights are bf16: there, and only there, fast products may differ from exact ones.
TEST_P(HfDecoder, FastLogitsStayNearThoseOfTransformers) {
  const auto fast = load(), exact = load({.numerics = Numerics::kExact});
  const auto archive = open_archive(recorded().path);
  ASSERT_TRUE(archive);
  const bool has_bf16 =
      std::ranges::any_of(archive->tensors(), [](const TensorInfo& info) { return info.dtype == DType::kBF16; });
  for (const RecordedInput& input : recorded().inputs) {
    const auto logits = fast->forward(TokenInput{input.ids}), precise = exact->forward(TokenInput{input.ids});
    ASSERT_TRUE(logits && precise);
    EXPECT_LE(recorded().logit_distance(*logits, input), has_bf16 ? kSplitTolerance : kDecoderTolerance);
    if (has_bf16) continue;
    EXPECT_TRUE(same_bits(*logits, *precise));
  }
}

// What the model shows where transformers reports hidden states.
class HiddenStates final : public TraceSink {
 public:
  Status on_output(std::string_view name, std::string_view, const Tensor& output) override {
    outputs_.insert_or_assign(std::string(name), output);
    return {};
  }
  const Tensor& at(const std::string& name) const { return outputs_.at(name); }

 private:
  std::map<std::string, Tensor> outputs_;
};

TEST_P(HfDecoder, HiddenStatesAreThoseOfTransformers) {
  size_t compared = 0;
  const auto model = load({.numerics = Numerics::kExact});
  for (const RecordedInput& input : recorded().inputs) {
    if (input.hidden.empty()) continue;
    HiddenStates states;
    model->context().trace = &states;
    ASSERT_TRUE(model->forward(TokenInput{input.ids}));
    model->context().trace = nullptr;
    const RecordedTensor expected = recorded().tensor(input.hidden);
    ASSERT_EQ(expected.dims.size(), 3U);
    const size_t each = expected.dims[1] * expected.dims[2];
    for (size_t i = 0; i < expected.dims[0]; ++i) {
      const std::string name = i == 0                      ? "embeddings"
                               : i + 1 == expected.dims[0] ? "final_norm"
                                                           : "blocks." + std::to_string(i - 1) + ".output";
      const RecordedTensor state{{expected.dims[1], expected.dims[2]},
                                 {expected.values.begin() + static_cast<ptrdiff_t>(i * each),
                                  expected.values.begin() + static_cast<ptrdiff_t>((i + 1) * each)}};
      EXPECT_LE(largest_difference(states.at(name), state), kDecoderTolerance) << name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 3U);
}

TEST_P(HfDecoder, GreedyTextsAreThoseOfTransformersWithAndWithoutACache) { expect_recorded_texts(*load(), recorded()); }

TEST_P(HfDecoder, StopsWhereTheFilesSay) {
  const auto model = load();
  EXPECT_THAT(model->stop_tokens(), ::testing::Not(::testing::IsEmpty()));
  for (const RecordedContinuation& text : recorded().texts) {
    if (text.until_stop.empty()) continue;
    GenerateOptions options = greedily(text.cached.size());
    options.stop_tokens.assign(model->stop_tokens().begin(), model->stop_tokens().end());
    std::vector<TokenId> expected = text.until_stop;
    const bool stops = std::ranges::find(options.stop_tokens, expected.back()) != options.stop_tokens.end();
    if (stops) expected.pop_back();  // transformers counts it in, we do not
    EXPECT_EQ(write_on(*model, text.prompt, options, stops ? StopReason::kStopToken : StopReason::kMaxTokens),
              expected);
  }
}

// Logits of the longest input and the tokens of the first text: everything that must not depend on how it is run.
struct Outcome {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  bool operator==(const Outcome&) const = default;
};

Outcome run(LoadedModel& model, const RecordedDecoder& decoder) {
  Outcome outcome;
  const auto longest =
      std::ranges::max_element(decoder.inputs, {}, [](const RecordedInput& input) { return input.ids.size(); });
  const auto logits = model.forward(TokenInput{longest->ids});
  EXPECT_TRUE(logits) << logits.error().message;
  if (logits) outcome.logits = read_floats(*logits);
  outcome.tokens = write_on(model, decoder.texts.front().prompt, greedily(4));
  return outcome;
}

TEST_P(HfDecoder, NeitherThreadsNorABudgetChangeABit) {
  const Outcome one = run(*load({.threads = 1}), recorded());
  ASSERT_FALSE(one.logits.empty());
  for (const unsigned threads : {2U, 3U}) {
    EXPECT_TRUE(run(*load({.threads = threads}), recorded()) == one) << threads << " threads";
  }
  auto archive = open_archive(recorded().path);
  ASSERT_TRUE(archive);
  const auto source = make_param_source(std::make_shared<const Archive>(std::move(*archive)));
  const uint64_t budget = smallest_budget(*source) + 4096;
  ASSERT_LT(budget, total_bytes(*source) / 2) << "no budget to speak of";
  const auto tight = load({.threads = 2, .param_budget = budget});
  EXPECT_TRUE(run(*tight, recorded()) == one) << "within " << budget << " bytes";
  EXPECT_LE(tight->residency().peak, budget);
}

TEST(HfDecoders, TheOlderSpellingOfLongropeIsTheSameModel) {
  const RecordedDecoder& decoder = recorded_decoder("phi3_longrope");
  LoadOptions options;
  options.config_text = read_text_file(decoder.path + "/config.su.json");
  const auto model = load_or_die(decoder.path + "/model.safetensors", options);
  for (const RecordedInput& input : decoder.inputs) {
    const auto logits = model->forward(TokenInput{input.ids});
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_LE(decoder.logit_distance(*logits, input), kDecoderTolerance);
  }
}

// A text that outgrows the short table on its way is computed again with the long one, from its beginning.
TEST(HfDecoders, LongropeForgetsItsPastWhereTheTableChanges) {
  const RecordedDecoder& decoder = recorded_decoder("phi3_longrope");
  const auto model = load_or_die(decoder.path);
  const std::vector<TokenId>& ids = decoder.inputs[3].ids;  // as long as the short table reaches
  ASSERT_EQ(ids.size(), 24U);
  GenerateOptions options = greedily(6);
  const auto cached = write_on(*model, ids, options);
  options.kv_cache = false;
  EXPECT_EQ(cached, write_on(*model, ids, options));
}

// A prompt that is taken up in pieces gives the same logits as one that is not.
TEST(HfDecoders, PiecesOfAPromptCountWithTheWholeOfIt) {
  for (const char* name : {"llama_rope_dynamic", "phi3_longrope"}) {
    const RecordedDecoder& decoder = recorded_decoder(name);
    const auto model = load_or_die(decoder.path);
    const CausalLm* text = model->as_causal_lm();
    const std::vector<TokenId>& ids = decoder.inputs.back().ids;
    auto past = make_lone_past(*text, model->context(), ids.size());
    ASSERT_TRUE(past);
    const auto read = [&](std::span<const TokenId> piece) {
      return forward_past(*text, model->context(), *past, piece, ids.size(), LogitRows::kLast);
    };
    const std::span all(ids);
    ASSERT_TRUE(read(all.first(20)));
    const auto logits = read(all.subspan(20));
    ASSERT_TRUE(logits) << logits.error().message;
    RecordedTensor expected = decoder.tensor(decoder.inputs.back().last_row);
    expected.dims.insert(expected.dims.begin(), 1);
    EXPECT_LE(largest_difference(*logits, expected), kDecoderTolerance) << name;
  }
}

std::vector<TokenId> long_text(size_t length, uint64_t vocabulary) {
  std::vector<TokenId> ids(length);
  for (size_t i = 0; i < length; ++i) ids[i] = static_cast<TokenId>(i * i % vocabulary);
  return ids;
}

// A text far longer than a window, with a past that drops what no query sees any more, and at once.
TEST(HfDecoders, WindowsThatPassOnChangeNoBit) {
  for (const char* name : {"gemma3", "mistral_swa"}) {
    const auto model = load_with_context(recorded_decoder(name), 8192);
    const CausalLm* text = model->as_causal_lm();
    KvShape everything = text->kv_shape();
    EXPECT_FALSE(std::ranges::all_of(everything.windows, [](uint64_t window) { return window == 0; }));
    const std::vector<TokenId> ids = long_text(2700, text->vocab_size());
    KvSequence past = *make_lone_past(*text, model->context(), ids.size());
    const auto whole = text->forward_tokens(model->context(), ids, LogitRows::kAll);
    ASSERT_TRUE(whole) << whole.error().message;
    const std::vector<float> all = read_floats(*whole);
    ASSERT_EQ(all.size(), ids.size() * text->vocab_size());
    size_t at = 0;
    for (const size_t length : {size_t{500}, size_t{512}, size_t{512}, size_t{1}, size_t{90}, size_t{1085}}) {
      const auto piece = std::span(ids).subspan(at, length);
      const auto found = forward_past(*text, model->context(), past, piece, ids.size(), LogitRows::kAll);
      ASSERT_TRUE(found) << found.error().message;
      const auto expected = std::span(all).subspan(at * text->vocab_size(), length * text->vocab_size());
      EXPECT_TRUE(std::ranges::equal(read_floats(*found), expected)) << name << ", " << at;
      at += length;
    }
    EXPECT_EQ(at, ids.size());
    everything.windows.clear();
    EXPECT_LT(past.bytes(), *KvLayout::make(everything)->bytes_for(ids.size()) * 3 / 4) << name;
  }
}

// What a window has passed by is computed again, what it holds is not, and neither shows.
TEST(HfDecoders, ATextThatIsTakenBackGoesOnAsIfItWereNew) {
  const auto model = load_with_context(recorded_decoder("gemma3"), 8192);
  const CausalLm& text = *model->as_causal_lm();
  const std::vector<TokenId> ids = long_text(2500, text.vocab_size());
  auto talk = Generator::start(text, model->context(), ids, greedily(1));
  ASSERT_TRUE(talk) << talk.error().message;
  for (const auto& [shared, reused] : {std::pair<size_t, size_t>{2400, 2400}, {300, 0}}) {
    std::vector<TokenId> prompt(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(shared));
    prompt.insert(prompt.end(), {5, 6, 7});
    const auto fresh = Generator::start(text, model->context(), prompt, greedily(1));
    ASSERT_TRUE(fresh);
    ASSERT_TRUE(talk->restart(prompt));
    EXPECT_EQ(talk->reused(), reused);
    const std::vector<float> expected = read_floats(fresh->logits());
    ASSERT_EQ(expected.size(), text.vocab_size());
    EXPECT_TRUE(read_floats(talk->logits()) == expected);
  }
}

}  // namespace
}  // namespace ballast::testing
