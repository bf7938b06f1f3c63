#include "ballast/archive/trace.h"

#include <gtest/gtest.h>

#include "tests/support/memory_archive.h"

namespace ballast::testing {
namespace {

using Names = std::vector<std::string>;

struct Traced {
  DiffReport diff;
  TraceReport trace;

  Names names() const {
    Names names;
    for (const size_t i : trace.order) {
      const DiffEntry& entry = diff.entries[i];
      names.push_back(entry.kind == DiffKind::kOnlyInB ? "+" + entry.name_b : entry.name_a);
    }
    return names;
  }
  std::string name_of(std::optional<size_t> entry) const { return entry ? diff.entries[*entry].name_a : "none"; }
};

using Steps = std::vector<std::pair<std::string, float>>;

Archive trace_of(const Steps& steps) {
  MemoryArchive archive;
  for (const auto& [name, value] : steps) archive.add(name, DType::kF32, {2}, std::vector<float>{1, value});
  return archive.build();
}

Traced compare(const Steps& steps_a, const Steps& steps_b, const DiffOptions& options = {}) {
  const Archive a = trace_of(steps_a);
  const Archive b = trace_of(steps_b);
  Traced traced;
  auto diff = diff_archives(a, b, options);
  EXPECT_TRUE(diff);
  traced.diff = std::move(*diff);
  traced.trace = order_trace(a, b, traced.diff);
  return traced;
}

TEST(Trace, StepsFollowTheOrderOfAWhereItIsNotSorted) {
  const Traced traced = compare({{"z", 1}, {"m", 2}, {"a", 3}}, {{"a", 3}, {"m", 2}, {"z", 1}});
  EXPECT_EQ(traced.names(), (Names{"z", "m", "a"}));
  EXPECT_FALSE(traced.trace.by_names);
  EXPECT_FALSE(traced.trace.first_beyond);
  EXPECT_FALSE(traced.trace.largest);
}

TEST(Trace, WhatOnlyBHasStandsBehindItsPredecessorThere) {
  const Traced traced = compare({{"x", 1}, {"only", 9}, {"c", 2}, {"b", 3}},
                                {{"first", 4}, {"x", 1}, {"new", 5}, {"newer", 6}, {"c", 2}, {"b", 3}, {"end", 7}});
  EXPECT_EQ(traced.names(), (Names{"+first", "x", "+new", "+newer", "only", "c", "b", "+end"}));
}

TEST(Trace, SortedNamesOfKnownModelsFollowTheirExecution) {
  const Steps resnet = {{"avgpool", 1},        {"flatten", 1},        {"input.nhwc", 1},     {"layer1.0.add", 1},
                        {"layer1.0.conv1", 1}, {"layer1.0.relu1", 1}, {"layer2.0.conv1", 1}, {"layer2.0.downsample", 1},
                        {"logits", 1},         {"stem.conv1", 1},     {"stem.maxpool", 1},   {"stem.relu", 1}};
  const Traced traced = compare(resnet, resnet);
  EXPECT_TRUE(traced.trace.by_names);
  EXPECT_EQ(traced.names(),
            (Names{"input.nhwc", "stem.conv1", "stem.relu", "stem.maxpool", "layer1.0.conv1", "layer1.0.relu1",
                   "layer1.0.add", "layer2.0.downsample", "layer2.0.conv1", "avgpool", "flatten", "logits"}));
  const Steps blocks = {{"blocks.0.norm_1", 1},  {"blocks.1.attention.qkv", 1},
                        {"blocks.10.norm_1", 1}, {"blocks.2.norm_1", 1},
                        {"logits", 1},           {"tok_embeddings", 1}};
  EXPECT_EQ(compare(blocks, blocks).names(), (Names{"tok_embeddings", "blocks.0.norm_1", "blocks.1.attention.qkv",
                                                    "blocks.2.norm_1", "blocks.10.norm_1", "logits"}));
}

TEST(Trace, OneUnknownNameMeansTheStoredOrder) {
  const Traced traced = compare({{"avgpool", 1}, {"mystery", 1}, {"stem.relu", 1}}, {{"avgpool", 1}});
  EXPECT_FALSE(traced.trace.by_names);
  EXPECT_EQ(traced.names(), (Names{"avgpool", "mystery", "stem.relu"}));
  for (const char* name : {"layer1.conv1", "layerx.0.add", "layer1.0.", "blocks.1", "blocks..add", "blocks.1.what"}) {
    EXPECT_FALSE(compare({{name, 1}}, {{name, 1}}).trace.by_names) << name;
  }
}

TEST(Trace, TellsTheFirstStepBeyondTheToleranceAndTheLargest) {
  const Steps a = {{"s3", 1}, {"s2", 1}, {"s1", 1}, {"s0", 1}};
  const Steps b = {{"s3", 1}, {"s2", 1.001F}, {"s1", 1.5F}, {"s0", 1.25F}};
  const Traced exact = compare(a, b);
  EXPECT_EQ(exact.name_of(exact.trace.first_beyond), "s2");
  EXPECT_EQ(exact.name_of(exact.trace.largest), "s1");
  DiffOptions tolerant;
  tolerant.atol = 0.01;
  const Traced loose = compare(a, b, tolerant);
  EXPECT_EQ(loose.name_of(loose.trace.first_beyond), "s1");
  tolerant.atol = 1;
  EXPECT_EQ(compare(a, b, tolerant).name_of(compare(a, b, tolerant).trace.first_beyond), "none");
}

TEST(Trace, AMissingStepIsNotADifferingOne) {
  const Traced traced = compare({{"b", 1}, {"a", 2}}, {{"b", 1}});
  EXPECT_FALSE(traced.trace.first_beyond);
}

}  // namespace
}  // namespace ballast::testing
