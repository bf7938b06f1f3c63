#include "apps/ballast/flags/distinct_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "apps/ballast/output/text.h"

namespace ballast::cli {
namespace {

using ::testing::ElementsAre;

TEST(DistinctNames, WhatAllNamesBeginWithGoesFirst) {
  EXPECT_THAT(shorten_names({"model.layers.0.mlp.weight", "model.layers.11.mlp.weight", "total"}, 18),
              ElementsAre("...0.mlp.weight", "...11.mlp.weight", "total"));
}

TEST(DistinctNames, ThenPartsFromTheLeftAndNeverNumbers) {
  EXPECT_THAT(shorten_names({"model.layers.10.self_attn.q_proj.weight", "lm_head.weight"}, 22),
              ElementsAre("m.l.10.s.q_proj.weight", "lm_head.weight"));
}

TEST(DistinctNames, NamesThatFitStayWhole) {
  EXPECT_THAT(shorten_names({"a.b.c", "a.b.d"}, 5), ElementsAre("a.b.c", "a.b.d"));
}

TEST(DistinctNames, TheWidthFoundKeepsEveryNameOfALlamaApart) {
  std::vector<std::string> names;
  for (int layer = 0; layer < 30; ++layer) {
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "mlp.gate_proj", "input_layernorm",
                             "post_attention_layernorm"}) {
      names.push_back("model.layers." + std::to_string(layer) + "." + part + ".weight");
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const size_t width = distinct_width(views, 12);
  EXPECT_LE(width, 24U);
  const std::vector<std::string> shortened = shorten_names(views, width);
  EXPECT_EQ(std::set<std::string>(shortened.begin(), shortened.end()).size(), names.size());
  for (const std::string& name : shortened) EXPECT_LE(display_width(name), width) << name;
}

}  // namespace
}  // namespace ballast::cli
