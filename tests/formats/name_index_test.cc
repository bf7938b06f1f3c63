#include "ballast/formats/name_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ballast {
namespace {

std::vector<TensorInfo> tensors_called(const std::vector<std::string>& names) {
  std::vector<TensorInfo> tensors(names.size());
  for (size_t i = 0; i < names.size(); ++i) tensors[i].name = names[i];
  return tensors;
}

// Every name is found where it stands, and a name that is not there is not.
void expect_finds_all(const NameIndex& index, const std::vector<TensorInfo>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) ASSERT_EQ(index.find(tensors, tensors[i].name), i) << tensors[i].name;
  EXPECT_EQ(index.find(tensors, "absent"), std::nullopt);
  EXPECT_EQ(index.find(tensors, ""), std::nullopt);
}

TEST(NameIndex, FindsNamesInAnyOrder) {
  for (const auto& names : std::vector<std::vector<std::string>>{
           {}, {"a"}, {"a", "b", "c"}, {"c", "b", "a"}, {"b", std::string("b\0", 2), "a"}, {"block.10", "block.9"}}) {
    const auto tensors = tensors_called(names);
    const NameIndex index(tensors);
    EXPECT_FALSE(index.has_duplicates());
    EXPECT_FALSE(index.is_sorted_list());
    expect_finds_all(index, tensors);
  }
}

TEST(NameIndex, NoticesNamesThatStandTwice) {
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"a", "a"}, {"a", "b", "a"}, {"b", "a", "a", "c"}, {"c", "a", "b", "c"}, {"a", "b", "b"}}) {
    EXPECT_TRUE(NameIndex(tensors_called(names)).has_duplicates());
  }
}

TEST(NameIndex, AHundredThousandNamesOfAModelNeedNoSorting) {
  std::vector<std::string> names;
  for (size_t i = 100'000; i-- > 0;) names.push_back("model.layers." + std::to_string(i) + ".mlp.weight");
  const auto tensors = tensors_called(names);
  const NameIndex index(tensors);
  EXPECT_FALSE(index.is_sorted_list());
  EXPECT_FALSE(index.has_duplicates());
  expect_finds_all(index, tensors);
}

// Names chosen to begin their search in the same slot of a table for that many.
std::vector<std::string> names_of_one_slot(size_t count) {
  const uint64_t mask = std::bit_ceil(2 * count) - 1;
  std::vector<std::string> names;
  for (size_t i = 0; names.size() < count; ++i) {
    std::string name = "n" + std::to_string(i);
    if ((NameIndex::hash(name) & mask) == 7) names.push_back(std::move(name));
  }
  std::swap(names.front(), names.back());  // so that they do not ascend
  return names;
}

TEST(NameIndex, NamesThatCollideOnPurposeAreSortedInstead) {
  auto names = names_of_one_slot(300);
  const auto tensors = tensors_called(names);
  const NameIndex index(tensors);
  EXPECT_TRUE(index.is_sorted_list());
  EXPECT_FALSE(index.has_duplicates());
  expect_finds_all(index, tensors);
  names.push_back(names[150]);
  EXPECT_TRUE(NameIndex(tensors_called(names)).has_duplicates());
}

TEST(NameIndex, DifferentNamesOfOneTagAreSortedInstead) {
  // Both searches begin at the same of four slots, and the upper halves of the hashes are the same.
  std::map<uint64_t, std::string> seen;
  for (size_t i = 0;; ++i) {
    ASSERT_LT(i, 3'000'000U);
    const std::string name = std::to_string(i);
    const uint64_t hashed = NameIndex::hash(name);
    const auto [found, fresh] = seen.emplace((hashed & ~uint64_t{0xFFFFFFFF}) | (hashed & 3), name);
    if (fresh) continue;
    const auto tensors = tensors_called({std::max(name, found->second), std::min(name, found->second)});
    const NameIndex index(tensors);
    EXPECT_TRUE(index.is_sorted_list());
    EXPECT_FALSE(index.has_duplicates());
    expect_finds_all(index, tensors);
    return;
  }
}

}  // namespace
}  // namespace ballast
