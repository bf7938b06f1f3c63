// Mixtures of experts: memory follows the experts that a text uses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ballast/base/counter_random.h"
#include "ballast/params/budget.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

constexpr uint64_t kExperts = 32, kUsed = 2, kWidth = 64, kHidden = 96, kWords = 16, kHeads = 2, kHeadDim = 32;
constexpr uint64_t kExpertBytes = 3 * kWidth * kHidden * sizeof(float);

constexpr std::string_view kConfig = R"({"model_type": "qwen3_moe", "vocab_size": 16, "hidden_size": 64,
  "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
  "num_experts": 32, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "norm_topk_prob": true,
  "max_position_embeddings": 32})";

// A safetensors file, tensor by tensor.
class WeightFile {
 public:
  void add(const std::string& name, const std::vector<uint64_t>& dims) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    add(name, dims, random(name, count));
  }
  void add(const std::string& name, const std::vector<uint64_t>& dims, const std::vector<float>& values) {
    header_ += fmt::format(R"({}"{}": {{"dtype": "F32", "shape": [{}], "data_offsets": [{}, {}]}})",
                           header_.empty() ? "" : ", ", name, fmt::join(dims, ", "), data_.size(),
                           data_.size() + values.size() * sizeof(float));
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  // The same values under the same name, whatever else the file holds.
  static std::vector<float> random(const std::string& name, uint64_t count) {
    const uint64_t key = std::hash<std::string>()(name);
    std::vector<float> values(count);
    for (uint64_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(counter_uniform(key, i) - 0.5) / 4;
    }
    return values;
  }
  std::string text() const {
    std::string header = "{" + header_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + header + data_;
  }

 private:
  std::string header_, data_;
};

std::string expert_name(uint64_t expert, std::string_view part) {
  return fmt::format("model.layers.0.mlp.experts.{}.{}.weight", expert, part);
}

void add_single_experts(WeightFile& file) {
  for (uint64_t e = 0; e < kExperts; ++e) {
    file.add(expert_name(e, "gate_proj"), {kHidden, kWidth});
    file.add(expert_name(e, "up_proj"), {kHidden, kWidth});
    file.add(expert_name(e, "down_proj"), {kWidth, kHidden});
  }
}

void add_stacked_experts(WeightFile& file) {
  std::vector<float> gate_up, down;
  const auto append = [](std::vector<float>& to, uint64_t e, std::string_view part) {
    const auto values = WeightFile::random(expert_name(e, part), kHidden * kWidth);
    to.insert(to.end(), values.begin(), values.end());
  };
  for (uint64_t e = 0; e < kExperts; ++e) {
    append(gate_up, e, "gate_proj");
    append(gate_up, e, "up_proj");
    append(down, e, "down_proj");
  }
  file.add("model.layers.0.mlp.experts.gate_up_proj", {kExperts, 2 * kHidden, kWidth}, gate_up);
  file.add("model.layers.0.mlp.experts.down_proj", {kExperts, kWidth, kHidden}, down);
}

std::string write_mixture(const TempFolder& folder, bool stacked) {
  WeightFile file;
  file.add("model.embed_tokens.weight", {kWords, kWidth});
  file.add("model.norm.weight", {kWidth});
  file.add("lm_head.weight", {kWords, kWidth});
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) file.add(layer + norm + ".weight", {kWidth});
  for (const char* norm : {"q_norm", "k_norm"}) file.add(layer + "self_attn." + norm + ".weight", {kHeadDim});
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    file.add(layer + "self_attn." + part + ".weight", {kHeads * kHeadDim, kWidth});
  }
  file.add(layer + "self_attn.o_proj.weight", {kWidth, kHeads * kHeadDim});
  file.add(layer + "mlp.gate.weight", {kExperts, kWidth});
  if (stacked) add_stacked_experts(file);
  else add_single_experts(file);
  folder.write("config.json", kConfig);
  folder.write("model.safetensors", file.text());
  return folder.path();
}

class Mixture : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Every, Mixture, ::testing::Bool(),
                         [](const auto& stacked) { return stacked.param ? "stacked" : "single"; });

std::vector<float> logits_of(LoadedModel& model, const std::vector<TokenId>& ids) {
  const auto logits = model.forward(TokenInput{ids});
  EXPECT_TRUE(logits) << logits.error().message;
  return logits ? read_floats(*logits) : std::vector<float>();
}

TEST_P(Mixture, MemoryFollowsTheExpertsThatAreTouched) {
  const TempFolder folder;
  const std::string path = write_mixture(folder, GetParam());
  const uint64_t all = load_or_die(path)->report().param_bytes;
  const uint64_t experts = kExperts * kExpertBytes;
  ASSERT_GT(experts, all * 9 / 10);
  // Room for everything: what is in memory is what was asked for. A device takes copies of whole parameters.
  const auto model = load_or_die(path, {.backend = "cpu", .threads = 1, .param_budget = 2 * all});
  logits_of(*model, {3});
  const uint64_t peak = model->residency().peak;
  EXPECT_LE(peak, all - experts + kUsed * kExpertBytes + (64 << 10)) << "of " << all;
  EXPECT_GE(peak, kUsed * kExpertBytes);
}

TEST_P(Mixture, RunsInMuchLessThanItsExperts) {
  const TempFolder folder;
  const std::string path = write_mixture(folder, GetParam());
  const std::vector<TokenId> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto whole = load_or_die(path, {.threads = 1});
  const uint64_t budget = 96 << 10;  // less than two experts
  const auto tight = load_or_die(path, {.threads = 2, .param_budget = budget});
  EXPECT_EQ(logits_of(*tight, ids), logits_of(*whole, ids));
  EXPECT_LE(tight->residency().peak, budget);
}

TEST(Mixtures, StackedAndSingleExpertsAreTheSameModel) {
  const TempFolder one, other;
  const auto single = load_or_die(write_mixture(one, false));
  const auto stacked = load_or_die(write_mixture(other, true));
  const std::vector<TokenId> ids = {1, 9, 3, 4, 15};
  EXPECT_EQ(logits_of(*single, ids), logits_of(*stacked, ids));
}

}  // namespace
}  // namespace ballast::testing
