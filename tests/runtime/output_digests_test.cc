// No bit of any output changes unnoticed. Where a change is meant, scripts/record_digests records the new ones, and
// docs/architecture.md says why they are better.
#include "tests/support/output_digests.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ballast/backends/cpu/cpu.h"

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
