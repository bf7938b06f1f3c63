// The memory that `inspect` tells is what the cache of the model takes.
#include "apps/ballast/models/running_memory.h"

#include <gtest/gtest.h>

namespace ballast::testing {
namespace {

using cli::running_memory;

// Four layers, every second of which sees the last 512 positions; two heads of 64 for keys and values.
Description windowed_model(const std::string& architecture) {
  Description file;
  file.format = "gguf";
  file.metadata.push_back({"general.architecture", architecture});
  const std::vector<std::pair<std::string, uint64_t>> counts = {
      {"context_length", 32'768},   {"embedding_length", 256},      {"feed_forward_length", 512},
      {"block_count", 4},           {"attention.head_count", 4},    {"attention.head_count_kv", 2},
      {"attention.key_length", 64}, {"attention.value_length", 64}, {"attention.sliding_window", 512}};
  for (const auto& [key, count] : counts) file.metadata.push_back({architecture + "." + key, count});
  file.metadata.push_back({architecture + ".attention.layer_norm_rms_epsilon", 1e-6});
  return file;
}

constexpr uint64_t kLayerToken = 2 * 2 * 64 * sizeof(float);

TEST(RunningMemory, CountsWindowsForWhatTheyKeep) {
  const Description file = windowed_model("gemma2");
  const auto summary = summarise_model(file);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->cache_bytes_per_token, 4 * kLayerToken);
  const auto few = running_memory(file, *summary, 100), many = running_memory(file, *summary, 32'768);
  ASSERT_TRUE(few && many);
  EXPECT_EQ(few->cache, 128 * 4 * kLayerToken) << "whole pages";
  // The window, what may be taken back, and a piece of a prompt.
  EXPECT_EQ(many->cache, 2 * (32'768 + 512 + 1024) * kLayerToken);
  EXPECT_EQ(many->total, many->cache + summary->weight_bytes);
  EXPECT_FALSE(running_memory(file, *summary, UINT64_MAX));
}

TEST(RunningMemory, OfAnArchitectureThatIsNotKnownCountsEveryLayer) {
  const Description file = windowed_model("gpt-of-tomorrow");
  const auto summary = summarise_model(file);
  ASSERT_TRUE(summary);
  EXPECT_EQ(running_memory(file, *summary, 32'768)->cache, 32'768 * 4 * kLayerToken);
}

}  // namespace
}  // namespace ballast::testing
