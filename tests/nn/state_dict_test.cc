#include "ballast/nn/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/nn/sequential.h"
#include "tests/support/test_files.h"

namespace ballast::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kConfig = R"([{"type": "Linear", "args": {"in_features": 2, "out_features": 3}},
  {"type": "BatchNorm2d", "args": {"num_features": 1}}])";

std::unique_ptr<Sequential> model_of(uint64_t seed) { return std::move(*build_sequential(kConfig, {.seed = seed})); }

std::vector<std::byte> values_now(Sequential& model) {
  std::vector<std::byte> all;
  for (const NamedTensor& tensor : model.state_dict()) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  return all;
}

TEST(StateDict, CarriesAModelToAnother) {
  const auto from = model_of(1), to = model_of(2);
  ASSERT_NE(values_now(*from), values_now(*to));
  const auto report = to->load_state_dict(from->state_dict());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(values_now(*from), values_now(*to));
}

TEST(StateDict, NamesEverythingThatDoesNotFitAndChangesNothing) {
  const auto from = model_of(1), to = model_of(2);
  const auto before = values_now(*to);
  StateDict state = from->state_dict();
  const ByteVector wide(7 * 4), more(4);
  state[0].info = testing::make_info("0.weight", DType::kF32, {7});
  state[0].bytes = wide;
  state[1].info.name = "0.bais";
  state.push_back({testing::make_info("9.extra", DType::kF32, {1}), more});
  const auto report = to->load_state_dict(state);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  for (const char* part : {"\"0.weight\" has shape [2, 3] in the model and [7] in the file", "missing: \"0.bias\"",
                           "unexpected: \"0.bais\", \"9.extra\""}) {
    EXPECT_THAT(report.error().message, HasSubstr(part));
  }
  EXPECT_EQ(values_now(*to), before);
}

TEST(StateDict, LoadsWhatFitsWhereItIsNotStrict) {
  const auto from = model_of(1), to = model_of(2);
  StateDict state = from->state_dict();
  state.erase(state.begin());
  const auto report = to->load_state_dict(state, {.strict = false});
  ASSERT_TRUE(report);
  EXPECT_THAT(report->missing, ElementsAre("0.weight"));
  const auto strict = to->load_state_dict(state);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, ErrorCode::kNotFound);
}

TEST(StateDict, ConvertsToTheTypeOfTheModel) {
  const auto from = model_of(1), to = model_of(2);
  ASSERT_TRUE(to->to(DType::kF16));
  ASSERT_TRUE(to->load_state_dict(from->state_dict()));
  EXPECT_EQ(to->parameters()[0].dtype(), DType::kF16);
}

}  // namespace
}  // namespace ballast::nn
