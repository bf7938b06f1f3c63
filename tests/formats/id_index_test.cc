#include "ballast/formats/id_index.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ballast {
namespace {

std::vector<TensorInfo> numbered_tensors(size_t count) {
  std::vector<TensorInfo> tensors(count);
  for (size_t i = 0; i < count; ++i) tensors[i].name = "blocks." + std::to_string(i) + ".weight";
  return tensors;
}

BaseParamId id_of_digits(std::string_view digits) { return BaseParamId{Id128::from_bytes_hex(digits).value()}; }

TEST(IdIndex, FindsATensorByTheIdOfItsName) {
  const auto tensors = numbered_tensors(1000);
  const IdIndex index;
  for (size_t i = 0; i < tensors.size(); ++i) ASSERT_EQ(index.find(tensors, base_param_id(tensors[i].name)), i);
  EXPECT_EQ(index.find(tensors, base_param_id("absent")), std::nullopt);
  EXPECT_EQ(index.find(tensors, BaseParamId{}), std::nullopt);
  EXPECT_EQ(IdIndex().find({}, base_param_id("absent")), std::nullopt);
}

TEST(IdIndex, GivesTheFirstOfSeveralNamesakes) {
  auto tensors = numbered_tensors(3);
  tensors[2].name = tensors[1].name;
  EXPECT_EQ(IdIndex().find(tensors, base_param_id(tensors[1].name)), 1U);
}

TEST(IdIndex, ThreadsMayAskFirstAtTheSameTime) {
  const auto tensors = numbered_tensors(500);
  const IdIndex index;
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < tensors.size(); ++i) count += index.find(tensors, base_param_id(tensors[i].name)) != i;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(NearestId, IsTheOneWithADigitMistyped) {
  const auto tensors = numbered_tensors(100);
  std::string digits = base_param_id(tensors[42].name).to_bytes_hex();
  digits[7] = digits[7] == '0' ? '1' : '0';
  EXPECT_EQ(nearest_id(tensors, id_of_digits(digits)), 42U);
}

TEST(NearestId, IsTheOneWhoseBytesWereWrittenInTheOtherOrder) {
  const auto tensors = numbered_tensors(100);
  EXPECT_EQ(nearest_id(tensors, id_of_digits(base_param_id(tensors[42].name).to_number_hex())), 42U);
}

TEST(NearestId, IsNoneForAnIdOfSomethingElse) {
  EXPECT_EQ(nearest_id(numbered_tensors(100), base_param_id("absent")), std::nullopt);
  EXPECT_EQ(nearest_id({}, base_param_id("absent")), std::nullopt);
}

}  // namespace
}  // namespace ballast
