#include "ballast/formats/tie.h"

#include <gtest/gtest.h>

#include "ballast/formats/format.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// a and c hold the same bytes, b others.
class PlainFeed final : public TensorFeed {
 public:
  Status emit(size_t index, PayloadForm, ByteSink& sink) override {
    drawn.push_back(index);
    return sink.write(counting_bytes(64, index == 1 ? 100 : 1));
  }
  std::vector<size_t> drawn;
};

Description three_tensors() {
  Description description;
  for (const char* name : {"a", "b", "c"}) description.tensors.push_back(make_info(name, DType::kF32, {4, 4}));
  return description;
}

ByteVector write_tied(const FormatDriver& format, const Description& description, std::vector<uint32_t> ties,
                      PlainFeed& feed) {
  WriteOptions options;
  options.keep_order = true;
  const auto plan = format.plan_write({description, options, "x", ties});
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  MemorySink sink;
  EXPECT_TRUE((*plan)->emit(0, sink, feed));
  EXPECT_EQ(sink.position(), (*plan)->files()[0].size);
  return sink.take();
}

TEST(TieNumber, StandsAtTheEndOfAStoredForm) {
  EXPECT_EQ(tie_number("tie=3"), 3U);
  EXPECT_EQ(tie_number("bool=text tie=12"), 12U);
  for (const char* form : {"", "tie=", "tie=x", "tie=1 ", "necktie=1", "bool=text"})
    EXPECT_FALSE(tie_number(form)) << form;
  EXPECT_EQ(form_without_tie("bool=text tie=12"), "bool=text");
  EXPECT_EQ(form_without_tie("tie=12"), "");
  EXPECT_EQ(form_without_tie("bool=text"), "bool=text");
}

TEST(TieNumber, IsSetAndTakenAwayBesideTheRest) {
  TensorInfo tensor;
  tensor.set_stored_form("id=0");
  set_tie_number(tensor, 2);
  EXPECT_EQ(tensor.stored_form(), "id=0 tie=2");
  set_tie_number(tensor, 5);
  EXPECT_EQ(tensor.stored_form(), "id=0 tie=5");
  set_tie_number(tensor, std::nullopt);
  EXPECT_EQ(tensor.stored_form(), "id=0");
}

TEST(MarkTies, NumbersGroupsInTheOrderOfTheirFirstTensors) {
  std::vector<TensorInfo> tensors(6);
  const std::vector<StoredExtent> extents = {{.offset = 90, .length = 5}, {.offset = 10, .length = 5},
                                             {.offset = 90, .length = 5}, {.offset = 10, .length = 4},
                                             {.offset = 10, .length = 5}, {.offset = 90, .length = 0}};
  mark_ties(tensors, extents);
  std::vector<std::string> forms;
  for (const TensorInfo& tensor : tensors) forms.push_back(tensor.stored_form());
  EXPECT_EQ(forms, (std::vector<std::string>{"tie=1", "tie=2", "tie=1", "", "tie=2", ""}));
}

class TyingFormat : public ::testing::TestWithParam<const char*> {
 protected:
  const FormatDriver& format() const { return *find_format(GetParam()); }
};

TEST_P(TyingFormat, StoresASharedPayloadOnceAndReadsItTwice) {
  const Description description = three_tensors();
  PlainFeed feed;
  const ByteVector tied = write_tied(format(), description, {0, 1, 0}, feed);
  EXPECT_EQ(feed.drawn, (std::vector<size_t>{0, 1}));
  PlainFeed all;
  EXPECT_LT(tied.size(), write_tied(format(), description, {}, all).size());
  const auto archive = open_bytes(format(), tied);
  ASSERT_TRUE(archive) << archive.error().message;
  for (const char* name : {"a", "b", "c"}) {
    const size_t index = *archive->find(name);
    const auto payload = archive->payload(index);
    ASSERT_TRUE(payload);
    const ByteVector expected = counting_bytes(64, *name == 'b' ? 100 : 1);
    EXPECT_TRUE(std::ranges::equal(payload->bytes(), expected)) << name;
    EXPECT_EQ(archive->tensors()[index].stored_form(), *name == 'b' ? "" : "tie=1") << name;
  }
}

TEST_P(TyingFormat, IsSoundWithANoteForWhatIsTied) {
  PlainFeed feed;
  const Verified verified = verify_bytes(format(), write_tied(format(), three_tensors(), {0, 1, 0}, feed));
  EXPECT_TRUE(verified.readable);
  EXPECT_EQ(verified.count(Severity::kError), 0U);
  EXPECT_EQ(verified.count(Severity::kWarning), 0U);
  ASSERT_NE(verified.find("tied"), nullptr);
  EXPECT_EQ(verified.find("tied")->tensor, "c");
  EXPECT_EQ(verified.find("payload_order"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, TyingFormat, ::testing::Values("burnpack", "gptrs-tensors"),
                         [](const auto& test) { return test.param[0] == 'b' ? "burnpack" : "gptrs_tensors"; });

}  // namespace
}  // namespace ballast::testing
