#include "ballast/text/calibration.h"

#include <gmock/gmock.h>

#include <numeric>

#include "ballast/models/model.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/read_floats.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;

const std::vector<TokenId> kReadTokens = {3, 14, 15, 92, 65, 35, 89, 79};

struct Collected {
  ImportanceMatrix matrix;
  std::vector<float> logits;
};

Collected collect(const std::string& name, bool watch = true) {
  ImportanceCollector collector;
  LoadOptions options{.threads = 2};
  if (watch) options.extend = [&](Registry& registry) { return collector.attach(registry); };
  const auto model = load_model(test_file_path("hf/" + name), options);
  EXPECT_TRUE(model) << model.error().message;
  const auto logits = (*model)->as_causal_lm()->forward_tokens((*model)->context(), kReadTokens, LogitRows::kAll);
  EXPECT_TRUE(logits) << logits.error().message;
  return {collector.take(), read_floats(*logits)};
}

TEST(Calibration, SumsTheSquaresOfEveryWeightsInputs) {
  const Collected seen = collect("llama_plain");
  const std::string layer = "model.layers.1.";
  const WeightImportance& query = seen.matrix.at(layer + "self_attn.q_proj.weight");
  EXPECT_THAT(query.rows, ElementsAre(kReadTokens.size()));
  EXPECT_EQ(query.square_sums.size(), query.inputs);
  // What has the same inputs has the same sums; what stands elsewhere has others.
  EXPECT_EQ(seen.matrix.at(layer + "self_attn.v_proj.weight").square_sums, query.square_sums);
  EXPECT_NE(seen.matrix.at(layer + "self_attn.o_proj.weight").square_sums, query.square_sums);
  EXPECT_TRUE(seen.matrix.contains(layer + "mlp.down_proj.weight"));
  EXPECT_TRUE(seen.matrix.contains("lm_head.weight"));
}

TEST(Calibration, TellsExpertsApart) {
  const Collected seen = collect("mixtral");
  uint64_t rows = 0;
  size_t stacks = 0;
  for (const auto& [name, entry] : seen.matrix) {
    if (name.find("layers.0.") == std::string::npos || name.find("experts") == std::string::npos) continue;
    if (name.find("w2") == std::string::npos && name.find("down_proj") == std::string::npos) continue;
    rows += std::accumulate(entry.rows.begin(), entry.rows.end(), uint64_t{0});
    ++stacks;
  }
  EXPECT_GT(stacks, 0U);
  EXPECT_EQ(rows, kReadTokens.size() * 2);  // two experts are asked about each token
}

TEST(Calibration, WatchingChangesNothing) {
  for (const char* name : {"llama_plain", "mixtral", "phi3", "gpt2"}) {
    EXPECT_EQ(collect(name, true).logits, collect(name, false).logits) << name;
    EXPECT_TRUE(collect(name, false).matrix.empty());
  }
}

}  // namespace
}  // namespace ballast::testing
