// No bit of any output changes unnoticed. Where a change is meant, scripts/record_digests records the new ones, and
// docs/architecture.md says why they are better.
#include "tests/support/output_digests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ballast/archive/open.h"
#include "ballast/backends/cpu/cpu.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// With BALLAST_RECORD_DIGESTS in the environment, as scripts/record_digests sets it, what is computed is written down
// instead, and sections of machines unlike this one stay.
bool records() { return std::getenv("BALLAST_RECORD_DIGESTS") != nullptr; }

void record(const std::string& section, const OutputDigests& computed) {
  DigestSections sections = read_recorded_digests();
  sections[section] = computed;
  write_recorded_digests(sections);
}

void expect_recorded(const std::string& section, const OutputDigests& recorded, const OutputDigests& computed) {
  for (const auto& [name, digest] : computed) {
    const auto found = recorded.find(name);
    EXPECT_NE(found, recorded.end()) << section << ": " << name << " was never recorded; run scripts/record_digests";
    if (found == recorded.end() || !is_comparable(name, recorded, computed)) continue;
    EXPECT_EQ(digest, found->second) << section << ": " << name << " is not what it was";
  }
  for (const auto& [name, digest] : recorded)
    EXPECT_EQ(computed.count(name), 1U) << section << ": " << name << " is recorded, but nothing computes it any more";
}

TEST(OutputDigests, OfTheReferenceBackendAreThoseRecorded) {
  const OutputDigests computed = compute_output_digests("reference");
  if (records()) return record("reference", computed);
  expect_recorded("reference", read_recorded_digests()["reference"], computed);
}

// Levels that nobody has recorded yet are not compared: NEON is not on an x86 machine.
TEST(OutputDigests, OfEveryRecordedLevelOfTheCpuAreThoseRecorded) {
  DigestSections recorded = read_recorded_digests();
  for (const std::string_view level : cpu_levels()) {
    const std::string section = "cpu " + std::string(level);
    if (!records() && recorded.count(section) == 0) continue;
    ASSERT_TRUE(use_cpu_level(level));
    const OutputDigests computed = compute_output_digests("cpu");
    if (records()) record(section, computed);
    else expect_recorded(section, recorded[section], computed);
  }
  use_cpu_level("");
}

// Of "FILE logits" and the like, and of training in bf16.
bool computes_with_bf16(const std::string& name) {
  if (name.starts_with("training ")) return name.find("bf16") != std::string::npos;
  const auto archive = open_archive(test_file_path(name.substr(0, name.rfind(' '))));
  return archive &&
         std::ranges::any_of(archive->tensors(), [](const TensorInfo& info) { return info.dtype == DType::kBF16; });
}

// Tiles multiply bf16 weights, unless products are exact, and nothing else.
TEST(OutputDigests, OfTilesDifferFromThoseOfAvx512OnlyForBf16) {
  const DigestSections recorded = read_recorded_digests();
  ASSERT_EQ(recorded.count("cpu amx"), 1U);
  ASSERT_EQ(recorded.count("cpu avx512"), 1U);
  const OutputDigests &tiles = recorded.at("cpu amx"), &vectors = recorded.at("cpu avx512");
  ASSERT_EQ(tiles.size(), vectors.size());
  for (const auto& [name, digest] : vectors) {
    const bool may_differ = name.find(" exact") == std::string::npos && computes_with_bf16(name);
    if (may_differ || name == "math") continue;
    EXPECT_EQ(tiles.at(name), digest) << name;
  }
}

TEST(OutputDigests, AreComparedByBitsOnlyWhereTheMathOfTheMachineIsTheSame) {
  const OutputDigests here{{"math", "a"}}, there{{"math", "b"}};
  EXPECT_TRUE(is_comparable("hf/x logits", here, here));
  EXPECT_FALSE(is_comparable("hf/x logits", here, there));
  EXPECT_TRUE(is_comparable("hf/x text", here, there));
  EXPECT_TRUE(is_comparable("training x loss", here, there));
  EXPECT_FALSE(is_comparable("math", here, here));
}

}  // namespace
}  // namespace ballast::testing
