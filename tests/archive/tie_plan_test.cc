#include "ballast/archive/tie_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "ballast/archive/verify.h"
#include "ballast/formats/tie.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

constexpr size_t kTiedBytes = 80'000;

// wte and lm_head hold the same, mid something else, and two tiny biases are equal too.
std::string write_tied_model(const TempFolder& folder, const std::string& name = "m.safetensors") {
  WritePlan plan;
  const auto add = [&](std::string tensor, size_t bytes, unsigned first) {
    plan.add_tensor(make_info(std::move(tensor), DType::kF32, {bytes / 4}),
                    [=](ByteSink& sink) { return sink.write(counting_bytes(bytes, first)); });
  };
  add("lm_head", kTiedBytes, 1);
  add("mid", kTiedBytes, 3);
  add("wte", kTiedBytes, 1);
  add("bias.a", 64, 5);
  add("bias.b", 64, 5);
  const auto report = write_archive(folder.path(name), *find_format("safetensors"), plan);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return folder.path(name);
}

Result<ConvertReport> convert_tied(const std::string& from, const std::string& to, const std::string& format,
                                   const ConvertOptions& options = {}) {
  const auto archive = open_archive(from, {.access = FileAccess::kPositional});
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  return convert_archive(*archive, to, *find_format(format), options);
}

class Tying : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  std::string format() const { return GetParam().first; }
  std::string file(const std::string& stem) const { return stem + GetParam().second; }
};

TEST_P(Tying, EqualTensorsFromAnotherFormatAreStoredOnce) {
  const TempFolder folder;
  const std::string source = write_tied_model(folder);
  const auto report = convert_tied(source, folder.path(file("m")), format());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tied, 1U);  // the small ones are not worth it
  EXPECT_EQ(report->tied_bytes, kTiedBytes);
  EXPECT_LT(report->written.bytes, 2 * kTiedBytes + 10'000);
  EXPECT_THAT(report->notes, ::testing::Contains(HasSubstr("stored once")));
  const auto verified =
      verify_archive(folder.path(file("m")), {.level = VerifyLevel::kContent, .threads = 0, .progress = {}});
  ASSERT_TRUE(verified);
  for (const Finding& finding : verified->findings) EXPECT_EQ(finding.severity, Severity::kNote) << finding.message;
}

TEST_P(Tying, TheWayBackGivesTheSameBytes) {
  const TempFolder folder;
  const std::string source = write_tied_model(folder);
  ASSERT_TRUE(convert_tied(source, folder.path(file("m")), format()));
  ASSERT_TRUE(convert_tied(folder.path(file("m")), folder.path("back.safetensors"), "safetensors"));
  EXPECT_TRUE(read_text_file(folder.path("back.safetensors")) == read_text_file(source));
}

TEST_P(Tying, ATiedFileComesBackTiedThroughAFormatThatCannotTie) {
  const TempFolder folder;
  WritePlan plan;  // as another program may have written it: no word of any origin
  for (const char* name : {"a", "b", "c"}) {
    plan.add_tensor(make_info(name, DType::kF32, {16}), [](ByteSink& sink) { return sink.write(counting_bytes(64)); });
  }
  plan.ties = {0, 0, 2};
  ASSERT_TRUE(write_archive(folder.path(file("m")), *find_format(format()), plan));
  for (const std::string other : {"safetensors", "npz"}) {
    ASSERT_TRUE(convert_tied(folder.path(file("m")), folder.path("there." + other), other));
    const auto back = convert_tied(folder.path("there." + other), folder.path(file("back-" + other)), format());
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->tied, 1U);
    EXPECT_TRUE(read_text_file(folder.path(file("back-" + other))) == read_text_file(folder.path(file("m"))));
  }
}

TEST_P(Tying, ACopyKeepsTheLayoutItHad) {
  const TempFolder folder;
  const std::string source = write_tied_model(folder);
  ConvertOptions apart;
  apart.tie = false;
  ASSERT_TRUE(convert_tied(source, folder.path(file("tied")), format()));
  const auto untied = convert_tied(source, folder.path(file("untied")), format(), apart);
  ASSERT_TRUE(untied);
  EXPECT_EQ(untied->tied, 0U);
  EXPECT_GT(untied->written.bytes, 3 * kTiedBytes);
  for (const std::string stem : {"tied", "untied"}) {
    ASSERT_TRUE(convert_tied(folder.path(file(stem)), folder.path(file(stem + "-copy")), format()));
    EXPECT_TRUE(read_text_file(folder.path(file(stem + "-copy"))) == read_text_file(folder.path(file(stem)))) << stem;
  }
  // Told not to tie, a tied file is written out in full.
  const auto full = convert_tied(folder.path(file("tied")), folder.path(file("full")), format(), apart);
  ASSERT_TRUE(full);
  EXPECT_GT(full->written.bytes, 3 * kTiedBytes);
}

TEST_P(Tying, WhatAnEditMakesDifferentIsNotTied) {
  const TempFolder folder;
  ASSERT_TRUE(convert_tied(write_tied_model(folder), folder.path(file("m")), format()));
  for (const std::string& source : {folder.path("m.safetensors"), folder.path(file("m"))}) {
    ConvertOptions options;
    options.write.commit.overwrite = true;
    options.edits.push_back([](WritePlan& plan, std::vector<std::string>&) -> Status {
      for (size_t i = 0; i < plan.providers.size(); ++i) {
        if (plan.description.tensors[i].name != "wte") continue;
        plan.providers[i] = [](ByteSink& sink) { return sink.write(counting_bytes(kTiedBytes, 99)); };
      }
      return {};
    });
    const auto report = convert_tied(source, folder.path(file("edited")), format(), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->tied, 0U);
    const auto archive = open_archive(folder.path(file("edited")));
    ASSERT_TRUE(archive);
    const auto payload = archive->payload(*archive->find("lm_head"));
    ASSERT_TRUE(payload);
    EXPECT_TRUE(std::ranges::equal(payload->bytes(), counting_bytes(kTiedBytes, 1)));
  }
}

TEST_P(Tying, OfATieWithOneEndLeftNothingRemains) {
  const TempFolder folder;
  ASSERT_TRUE(convert_tied(write_tied_model(folder), folder.path(file("m")), format()));
  ConvertOptions options;
  options.exclude = {"^wte$"};
  ASSERT_TRUE(convert_tied(folder.path(file("m")), folder.path(file("less")), format(), options));
  const auto archive = open_archive(folder.path(file("less")));
  ASSERT_TRUE(archive);
  for (const TensorInfo& tensor : archive->tensors()) EXPECT_FALSE(tie_number(tensor.stored_form())) << tensor.name;
}

INSTANTIATE_TEST_SUITE_P(All, Tying,
                         ::testing::Values(std::pair("burnpack", ".bpk"), std::pair("gptrs-tensors", ".gten")),
                         [](const auto& test) { return test.param.first[0] == 'b' ? "burnpack" : "gptrs_tensors"; });

TEST(WritePlanTies, ThatDoNotFitTheTensorsAreRefused) {
  WritePlan plan;
  plan.add_tensor(make_info("a", DType::kU8, {4}), [](ByteSink& sink) { return sink.write(counting_bytes(4)); });
  plan.add_tensor(make_info("b", DType::kU8, {8}), [](ByteSink& sink) { return sink.write(counting_bytes(8)); });
  for (const std::vector<uint32_t>& ties : {std::vector<uint32_t>{0}, {1, 1}, {0, 0}, {0, 7}}) {
    plan.ties = ties;
    EXPECT_FALSE(write_archive_bytes(*find_format("burnpack"), plan));
  }
}

}  // namespace
}  // namespace ballast::testing
