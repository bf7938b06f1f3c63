// Several threads on one model: whatever uses its queue waits for its turn. The emulated device counts those who did
// not.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "ballast/device/host_values.h"
#include "ballast/runtime/embedder.h"
#include "ballast/runtime/image_model.h"
#include "ballast/runtime/text_model.h"
#include "examples/emulated_backend.h"
#include "tests/support/recorded_bert.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

LoadOptions emulated_load() { return {.own_backend = &emulated::backend(), .threads = 1}; }

template <typename Work>
void run_together(const std::vector<Work>& works) {
  std::vector<std::thread> threads;
  for (const Work& work : works) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

using Work = std::function<void()>;

TEST(Turns, AreCountedByTheEmulatedDeviceWhereTheyAreNotTaken) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"), emulated_load());
  const uint64_t before = emulated::overlaps();
  // Sooner or later one is in while the other comes; a minute is for machines that are very busy.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto is_over = [&] { return emulated::overlaps() != before || std::chrono::steady_clock::now() > end; };
  const auto careless = [&] {
    while (!is_over()) static_cast<void>(model->workspace().queue().finish());
  };
  const auto computes = [&] {
    while (!is_over()) EXPECT_TRUE(model->forward(TokenInput{{1, 2, 3}}));
  };
  run_together<Work>({computes, careless});
  EXPECT_GT(emulated::overlaps(), before);
}

TEST(Turns, AreTakenByEverythingThatComputesText) {
  const auto text = TextModel::open(recorded_model_path("gpt_micro"), {.load = emulated_load()});
  ASSERT_TRUE(text) << text.error().message;
  LoadedModel& model = text->model();
  const uint64_t before = emulated::overlaps();
  const auto writes = [&] {
    GenerateOptions options;
    options.max_tokens = 6;
    auto generator = text->start(std::vector<TokenId>{1, 2, 3}, options);
    ASSERT_TRUE(generator) << generator.error().message;
    while (*generator->next()) {
    }
    EXPECT_TRUE(generator->restart({1, 2, 4}));
  };
  const auto measures = [&] {
    const std::vector<TokenId> ids = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_TRUE(text->perplexity(ids, {}));
  };
  const auto computes = [&] {
    for (int i = 0; i < 6; ++i) {
      const auto logits = model.forward(TokenInput{{1, 2, 3}});
      ASSERT_TRUE(logits) << logits.error().message;
      const std::lock_guard turn(model.running());
      EXPECT_TRUE(HostValues<float>::of(*logits));
    }
  };
  const auto looks_on = [&] {
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(model.residency());
      static_cast<void>(model.capabilities());
    }
  };
  run_together<Work>({writes, measures, computes, looks_on, writes});
  EXPECT_EQ(emulated::overlaps(), before);
}

TEST(Turns, AreTakenByEmbeddersAndByModelsOfPictures) {
  const TempFolder folder, bert;
  copy_bert(bert, {bert_tokenizer()});
  const auto embedder = Embedder::open(bert.path(), {.load = emulated_load()});
  ASSERT_TRUE(embedder) << embedder.error().message;
  const auto images =
      ImageModel::open(write_rule_checkpoint(folder, "mobilenet_v2", 1), {.load = emulated_load(), .size = 32});
  ASSERT_TRUE(images) << images.error().message;
  const uint64_t before = emulated::overlaps();
  const auto embeds = [&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(embedder->embed("ship"));
  };
  const auto classifies = [&] {
    const Picture picture{4, 4, std::vector<uint8_t>(4 * 4 * 3, 128)};
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(images->classify(picture, 1));
  };
  run_together<Work>({embeds, embeds, classifies, classifies});
  EXPECT_EQ(emulated::overlaps(), before);
}

}  // namespace
}  // namespace ballast::testing
