// What a text is given does not depend on its company: random schedules against each text alone, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ballast/base/counter_random.h"
#include "ballast/models/model.h"
#include "tests/support/engine_lab.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

struct InvariantModel {
  std::string name;
  std::string place{};   // of a GGUF or gpt.rs file; empty: a recorded decoder of that name
  uint64_t context = 0;  // instead of the recorded one
};

void PrintTo(const InvariantModel& model, std::ostream* out) { *out << model.name; }

const std::vector<InvariantModel>& invariant_models() {
  static const std::vector<InvariantModel> all = {
      {"llama_plain", "", 200},
      {"llama_bf16", "", 200},
      {"llama_q4_0", "gguf/tiny/tiny_llama.q4_0.gguf"},
      {"llama_q5_0", "gguf/tiny/tiny_llama.q5_0.gguf"},
      {"qwen2_q8_0", "gguf/tiny/tiny_qwen2.q8_0.gguf"},
      {"gpt2_q4_0", "gguf/tiny/tiny_gpt2.q4_0.gguf"},  // positions that are learned
      {"gemma2_bf16", "gguf_models/gemma2_even/model.gguf"},
      {"gemma3", "", 200},           // windows in some layers, another rope in others
      {"mistral_swa", "", 200},      // windows in all layers
      {"ministral_mixed", "", 200},  // temperatures
      {"mixtral", "", 200},
      {"qwen2_moe_shared", "", 200},
      {"phi3_longrope"},               // computed anew when it grows long
      {"llama_rope_dynamic", "", 80},  // positions follow the length of the text
      {"gpt_base", "gptrs/gpt_base/model.gptrs"},
  };
  return all;
}

std::unique_ptr<LoadedModel> load_invariant(const InvariantModel& model, const LoadOptions& options) {
  if (!model.place.empty()) return load_or_die(test_file_path(model.place), options);
  const RecordedDecoder& decoder = recorded_decoder(model.name);
  return model.context != 0 ? load_with_context(decoder, model.context, options) : load_or_die(decoder.path, options);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t end) {
    return static_cast<uint64_t>(counter_uniform(seed_, at_++) * static_cast<double>(end));
  }
  bool one_in(uint64_t sides) { return below(sides) == 0; }

 private:
  uint64_t seed_, at_ = 0;
};

// Texts alone, each computed once however many schedules have it.
class AloneAnswers {
 public:
  explicit AloneAnswers(LoadedModel& model) : model_(model) {}
  const Answer& of(const Request& request) {
    const auto key = std::tuple(request.prompt, request.max_tokens, request.sampling.temperature, request.sampling.seed,
                                request.context_shift, request.keep_past);
    const auto [entry, is_new] = answers_.try_emplace(key);
    if (is_new) entry->second = answer_alone(model_, request);
    return entry->second;
  }

 private:
  LoadedModel& model_;
  std::map<std::tuple<std::vector<TokenId>, uint64_t, double, uint64_t, bool, bool>, Answer> answers_;
};

// Joins, leaves, splits, preempts, shares, forks and cancels at random.
class RandomSchedule {
 public:
  RandomSchedule(LoadedModel& model, uint64_t seed)
      : model_(model), dice_(seed), context_(model.as_causal_lm()->context_length()), lab_(model, options()) {}

  void run() {
    constexpr size_t kRequests = 9;
    for (size_t given = 0; given < kRequests || !lab_.engine().is_idle();) {
      if (given < kRequests && dice_.one_in(2)) {
        submit();
        ++given;
      }
      if (given < kRequests && dice_.one_in(4)) fork();
      if (dice_.one_in(25)) cancel();
      for (uint64_t steps = dice_.below(4); steps > 0; --steps) lab_.step();
    }
  }

  void expect_as_alone(AloneAnswers& alone) {
    for (const auto& [id, request] : requests_) {
      const Answer& answer = lab_.answer(id);
      Answer expected = alone.of(request);
      if (answer.reason == FinishReason::kCancelled) {
        ASSERT_LE(answer.tokens.size(), expected.tokens.size());
        expected.tokens.resize(answer.tokens.size());
        expected.logits.resize(answer.logits.size());
        expected.reason = FinishReason::kCancelled;
      }
      EXPECT_EQ(answer.error, "");
      EXPECT_EQ(answer.tokens, expected.tokens) << id;
      EXPECT_TRUE(answer == expected) << "other bits: request " << id << " of " << request.prompt.size() << " tokens";
    }
  }

  EngineCounters counters() { return lab_.engine().counters(); }

 private:
  EngineOptions options() {
    constexpr std::array<uint64_t, 6> kRows = {1, 5, 16, 33, 100, 512};
    EngineOptions options;
    options.most_rows = kRows[dice_.below(kRows.size())];
    options.most_sequences = 1 + dice_.below(8);
    options.share_prefixes = !dice_.one_in(4);
    // Enough for the longest text, and little more.
    if (!dice_.one_in(3)) options.most_bytes = bytes_of_pages(model_, (context_ + 63) / 64 + dice_.below(3));
    return options;
  }

  // One of few beginnings, or a text that was there before, with what was written to it so far; either cut anywhere, so
  // that texts part inside of a page.
  std::vector<TokenId> drawn_beginning() {
    const uint64_t most = context_ * 3 / 4;
    if (requests_.empty() || dice_.one_in(2)) {
      return some_ids(1 + dice_.below(most), model_.as_causal_lm()->vocab_size(), dice_.below(2));
    }
    const auto& [id, request] = *std::next(requests_.begin(), static_cast<ptrdiff_t>(dice_.below(requests_.size())));
    std::vector<TokenId> text = request.prompt;
    const std::vector<TokenId>& written = lab_.answer(id).tokens;
    text.insert(text.end(), written.begin(), written.end());
    if (dice_.one_in(2)) text.resize(1 + dice_.below(text.size()));
    text.resize(std::min<size_t>(text.size(), most));
    return text;
  }

  // A beginning, and an end of its own.
  Request drawn_request() {
    const uint64_t vocabulary = model_.as_causal_lm()->vocab_size();
    Request request;
    request.prompt = drawn_beginning();
    const auto end = some_ids(dice_.below(context_ / 8), vocabulary, 7 + dice_.below(1000));
    request.prompt.insert(request.prompt.end(), end.begin(), end.end());
    request.max_tokens = dice_.below(24);
    request.sampling.temperature = dice_.one_in(2) ? 0 : 1;
    request.sampling.seed = dice_.below(3);
    request.priority = static_cast<int>(dice_.below(3));
    request.context_shift = dice_.one_in(6);
    request.keep_past = !dice_.one_in(8);
    request.keep_logits = true;
    return request;
  }

  void submit() {
    const Request request = drawn_request();
    requests_[lab_.submit(request)] = request;
  }

  std::optional<RequestId> any_live() {
    std::vector<RequestId> live;
    for (const auto& [id, request] : requests_) {
      if (lab_.engine().progress(id)) live.push_back(id);
    }
    return live.empty() ? std::nullopt : std::optional(live[dice_.below(live.size())]);
  }

  // Before its first token a text may go any way; later the way that it goes itself.
  void fork() {
    const auto id = any_live();
    if (!id) return;
    Request request = requests_[*id];
    if (lab_.engine().progress(*id)->generated == 0) request.sampling = {.seed = 5 + dice_.below(2)};
    else if (request.sampling.temperature != 0) return;
    requests_[lab_.fork(*id, request.sampling)] = request;
  }

  void cancel() {
    const auto id = any_live();
    if (!id) return;
    EXPECT_TRUE(lab_.engine().cancel(*id));
  }

  LoadedModel& model_;
  Dice dice_;
  uint64_t context_;
  EngineLab lab_;
  std::map<RequestId, Request> requests_;
};

class BatchInvariance : public ::testing::TestWithParam<InvariantModel> {};

INSTANTIATE_TEST_SUITE_P(Every, BatchInvariance, ::testing::ValuesIn(invariant_models()),
                         [](const auto& test) { return test.param.name; });

TEST_P(BatchInvariance, RandomSchedulesGiveEachTextTheBitsThatItHasAlone) {
  const auto model = load_invariant(GetParam(), {.threads = 1});
  AloneAnswers alone(*model);
  EngineCounters all;
  uint64_t seed = 0;
  for (const unsigned threads : {1U, 2U, 3U}) {
    for (const bool has_budget : {false, true}) {
      LoadOptions options{.threads = threads};
      if (has_budget) options.param_budget_fraction = 0.4;
      const auto other = load_invariant(GetParam(), options);
      for (int i = 0; i < 2; ++i) {
        SCOPED_TRACE(fmt::format("schedule {} with {} threads{}", ++seed, threads, has_budget ? " and a budget" : ""));
        RandomSchedule schedule(*other, seed);
        schedule.run();
        schedule.expect_as_alone(alone);
        const EngineCounters counters = schedule.counters();
        all.preemptions += counters.preemptions;
        all.recomputed_tokens += counters.recomputed_tokens;
        all.reused_tokens += counters.reused_tokens;
        all.cancelled += counters.cancelled;
        all.pool.pages_copied += counters.pool.pages_copied;
        EXPECT_EQ(counters.failed, 0U);
        EXPECT_EQ(counters.pool.pages_in_use, 0U);
      }
    }
  }
  // That something was tried.
  EXPECT_GT(all.preemptions, 0U);
  EXPECT_GT(all.recomputed_tokens, 0U);
  EXPECT_GT(all.cancelled, 0U);
  EXPECT_GT(all.reused_tokens, 0U);
  EXPECT_GT(all.pool.pages_copied, 0U);
}

}  // namespace
}  // namespace ballast::testing
