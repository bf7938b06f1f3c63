#include <gtest/gtest.h>

#include "ballast/ops/registry.h"
#include "tests/support/ops_testing.h"

namespace ballast {
namespace {

Policy forced(const std::string& name) { return {.kind = Policy::Kind::kForce, .name = name}; }
Policy benchmark(size_t cache = 128) { return {.kind = Policy::Kind::kBenchmark, .cache = cache}; }

TEST(Policy, IsSpelledAsGptRsSpellsIt) {
  const std::pair<std::string_view, Policy> cases[] = {
      {"", {}},
      {"  \t", {}},
      {"force=fast", forced("fast")},
      {"  force= fast ", forced("fast")},
      {"force=", {}},
      {"force=  ", {}},
      {"benchmark", benchmark()},
      {"BenchMark", benchmark()},
      {"benchmark()", benchmark()},
      {"benchmark(cache=7)", benchmark(7)},
      {" benchmark( cache = 7 , ) ", benchmark(7)},
      {"benchmark(cache=3,cache=9)", benchmark(9)},
  };
  for (const auto& [text, expected] : cases) {
    const auto policy = parse_policy(text);
    ASSERT_TRUE(policy) << text << ": " << policy.error().message;
    EXPECT_EQ(*policy, expected) << text;
  }
}

TEST(Policy, RefusesEverythingElse) {
  for (const std::string_view text :
       {"fast", "Force=fast", "Benchmark(cache=2)", "benchmark(cache=0)", "benchmark(cache=-1)", "benchmark(cache=x)",
        "benchmark(cache=)", "benchmark(cache)", "benchmark(rounds=2)", "benchmark(cache=2", "benchmark cache=2",
        "benchmark(cache=99999999999999999999999)"}) {
    const auto policy = parse_policy(text);
    ASSERT_FALSE(policy) << text;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(policy.error().message.find("\"" + std::string(text) + "\" is no policy"), std::string::npos)
        << policy.error().message;
  }
}

TEST(Policy, ComesBackAsItsText) {
  EXPECT_EQ(to_text(Policy{}), "");
  EXPECT_EQ(to_text(forced("fast")), "force=fast");
  EXPECT_EQ(to_text(benchmark()), "benchmark");
  EXPECT_EQ(to_text(benchmark(7)), "benchmark(cache=7)");
}

TEST(Functionals, HaveTheKeysAndNamesOfGptRs) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"activation::relu", "relu_x"},
      {"activation::relu6", "relu6_x"},
      {"activation::softmax_last_dim", "softmax_last_dim_x"},
      {"activation::gelu", "gelu_x"},
      {"activation::silu", "silu_x"},
      {"activation::swiglu", "swiglu_gate_up"},
      {"attention::attention", "attention_config_qkv_cache"},
      {"attention::attention_decode_cache", "attention_decode_cache_config_qkv_cache_update_starts_query_start"},
      {"conv::conv2d", "conv2d_x_weight_bias_params"},
      {"embedding::embedding_lookup", "embedding_lookup_weight_indices"},
      {"linalg::matmul", "matmul_a_b"},
      {"normalization::layer_norm", "layer_norm_x_gamma_beta_eps"},
      {"normalization::rms_norm", "rms_norm_x_gamma_eps"},
      {"pooling::max_pool2d", "max_pool2d_x_window_stride_padding"},
      {"pooling::max_pool2d_nhwc", "max_pool2d_nhwc_x_window_stride_padding"},
      {"rotary::apply_rope", "apply_rope_x_cos_sin"},
      {"rotary::apply_rope_qkv_packed", "apply_rope_qkv_packed_config_qkv_cos_sin"},
      {"shape::reshape", "reshape_x_dims"},
      {"shape::transpose", "transpose_x_perm"},
      {"stochastic::dropout", "dropout_x_p_training"},
      {"tensor_ops::add_bias", "add_bias_x_bias"},
  };
  const testing::Lab lab;
  const Registry& registry = lab.registry;
  for (const auto& [suffix, builtin] : rows) {
    const std::string key = "gpt_rs::ops::functional::" + std::string(suffix);
    const FunctionalInfo* info = find_functional(key);
    ASSERT_NE(info, nullptr) << key;
    EXPECT_EQ(info->builtin, builtin);
    EXPECT_EQ(info->name, suffix.substr(suffix.find("::") + 2));
    EXPECT_EQ(registry.implementations(info->name), std::vector<std::string>{std::string(builtin)});
  }
}

TEST(Functionals, AllHaveABuiltInImplementationAndNamesOfTheirOwn) {
  testing::Lab lab;
  Registry& registry = lab.registry;
  for (const FunctionalInfo& info : all_functionals()) {
    EXPECT_EQ(find_functional(info.key), &info);
    EXPECT_EQ(find_functional(info.name), &info);
    EXPECT_TRUE(registry.set_policy(info.key, forced(std::string(info.builtin)))) << info.name;
    EXPECT_FALSE(registry.is_overridden(info.name));
  }
  EXPECT_EQ(find_functional("nothing"), nullptr);
}

}  // namespace
}  // namespace ballast
