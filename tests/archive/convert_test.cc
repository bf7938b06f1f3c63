#include "ballast/archive/convert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "ballast/archive/origin.h"
#include "ballast/formats/drivers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// Every writable format has a sample here in the form its reference writer produces.
WritePlan plain_plan() {
  static const ByteVector bytes = counting_bytes(256, 7);
  WritePlan plan;
  plan.add_tensor(make_info("layer.0.weight", DType::kF32, {4, 3}), ByteSpan(bytes).first(48));
  plan.add_tensor(make_info("layer.0.bias", DType::kF32, {3}), ByteSpan(bytes).subspan(48, 12));
  plan.add_tensor(make_info("step", DType::kI32, {1}), ByteSpan(bytes).subspan(64, 4));
  return plan;
}

Archive open_path(const std::string& path) {
  auto archive = open_archive(path);
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  return std::move(*archive);
}

Digest digest_of(const Archive& archive) {
  const auto digests = digest_tensors(archive);
  EXPECT_TRUE(digests);
  return archive_digest(archive.tensors(), *digests);
}

TEST(Digests, AreTheOnesFixedForEver) {
  // Computed independently from the definition in docs/architecture.md.
  WritePlan plan;
  const ByteVector bytes = counting_bytes(8, 1);
  plan.add_tensor(make_info("w", DType::kF32, {2}), bytes);
  const auto file = write_archive_bytes(kSafetensorsDriver, plan);
  ASSERT_TRUE(file);
  const Archive archive = open_or_die(kSafetensorsDriver, *file);
  const auto digests = digest_tensors(archive);
  ASSERT_TRUE(digests);

  Blake3 tensor;
  tensor.update(std::string_view("ballast:tensor:v1\0", 18));
  tensor.update(
      std::string_view("\x03"
                       "f32"
                       "\x01\0\0\0"
                       "\x02\0\0\0\0\0\0\0"
                       "\x08\0\0\0\0\0\0\0",
                       24));
  tensor.update(bytes);
  EXPECT_EQ(to_hex((*digests)[0].blake3), to_hex(tensor.finish()));

  Blake3 whole;
  whole.update(std::string_view("ballast:archive:v1\0", 19));
  whole.update(std::string_view("\x01\0\0\0w", 5));
  whole.update(tensor.finish());
  EXPECT_EQ(to_hex(digest_of(archive)), to_hex(whole.finish()));
}

TEST(Digests, DoNotDependOnTheNumberOfThreads) {
  const auto file = write_archive_bytes(kSafetensorsDriver, plain_plan());
  const Archive archive = open_or_die(kSafetensorsDriver, *file);
  const auto one = digest_tensors(archive, {.sha256 = true, .threads = 1, .progress = {}});
  const auto seven = digest_tensors(archive, {.sha256 = true, .threads = 7, .progress = {}});
  ASSERT_TRUE(one && seven);
  for (size_t i = 0; i < one->size(); ++i) {
    EXPECT_EQ((*one)[i].blake3, (*seven)[i].blake3);
    EXPECT_EQ((*one)[i].sha256, (*seven)[i].sha256);
    EXPECT_EQ((*one)[i].sha256, sha256_hex(archive.payload(i)->bytes()));
  }
}

class Origins : public ::testing::Test {
 protected:
  Origins() {
    source.format = "other";
    source.version = "9";
    source.stored_form = "odd";
    source.metadata = {{"text", std::string("v\n")}, {"i", int64_t{-5}}, {"u", UINT64_MAX}, {"f", 0.1}, {"b", true}};
    source.config = ModelConfig{"gptrs", "{ \"kind\" :\"gpt\"}"};
    source.tensors = {make_info("b", DType::kF32, {}), make_info("a", DType::kF32, {2})};
    source.tensors[0].param_id = UINT64_MAX;
    source.tensors[0].requires_grad = true;
    source.tensors[1].set_stored_form("id=0");
    written.format = "safetensors";
    written.tensors = {make_info("a", DType::kF32, {2}), make_info("b", DType::kF32, {1})};
  }
  Description source;
  Description written;
  Digest content = blake3(as_bytes("content"));
};

TEST_F(Origins, GiveTheSourceBack) {
  const auto decoded = decode_origin(encode_origin(source, written, content), written, content);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(same_content_description(*decoded, source));
  EXPECT_EQ(decoded->format, "other");
  EXPECT_EQ(decoded->version, "9");
  EXPECT_EQ(decoded->stored_form, "odd");
  EXPECT_EQ(decoded->tensors[0].stored_form(), "");
  EXPECT_EQ(decoded->tensors[1].stored_form(), "id=0");
  EXPECT_EQ(origin_summary(encode_origin(source, written, content)), "other 9");
}

TEST_F(Origins, AreStaleOnceContentOrMetadataChanged) {
  const std::string value = encode_origin(source, written, content);
  EXPECT_FALSE(decode_origin(value, written, blake3(as_bytes("other"))));
  Description edited = written;
  edited.metadata.push_back({"k", std::string("v")});
  EXPECT_FALSE(decode_origin(value, edited, content));
}

TEST_F(Origins, DamagedOnesAreErrorsNeverSurprises) {
  const std::string value = encode_origin(source, written, content);
  for (size_t length = 0; length < value.size(); ++length) {
    EXPECT_FALSE(decode_origin(value.substr(0, length), written, content));
  }
  std::string shape_lie = value;
  const size_t at = shape_lie.find("\"shape\":[]");
  ASSERT_NE(at, std::string::npos);
  shape_lie.replace(at, 10, "\"shape\":[7]");
  EXPECT_FALSE(decode_origin(shape_lie, written, content));
}

TEST(Convert, KeepsContentAndOrderOfSelectedTensors) {
  const TempFolder folder;
  ASSERT_TRUE(write_archive(folder.path("a.safetensors"), kSafetensorsDriver, plain_plan()));
  const Archive source = open_path(folder.path("a.safetensors"));
  ConvertOptions options;
  options.only = {"^layer"};
  options.exclude = {"bias$"};
  const auto report = convert_archive(source, folder.path("b.safetensors"), kSafetensorsDriver, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tensors, 1U);
  EXPECT_EQ(open_path(folder.path("b.safetensors")).tensors()[0].name, "layer.0.weight");
}

TEST(Convert, SaysWhichExpressionIsWrong) {
  const TempFolder folder;
  ASSERT_TRUE(write_archive(folder.path("a.safetensors"), kSafetensorsDriver, plain_plan()));
  const Archive source = open_path(folder.path("a.safetensors"));
  ConvertOptions options;
  options.only = {"(unclosed"};
  const auto report = convert_archive(source, folder.path("b.safetensors"), kSafetensorsDriver, options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(report.error().message.find("(unclosed"), std::string::npos);
  options.only = {"nothing like this"};
  EXPECT_FALSE(convert_archive(source, folder.path("b.safetensors"), kSafetensorsDriver, options));
}

TEST(Convert, NamesEveryLossAndWritesNothing) {
  const TempFolder folder;
  WritePlan plan;
  const ByteVector bytes = counting_bytes(64, 0);
  plan.add_tensor(make_info("z", DType::kC128, {2}), ByteSpan(bytes).first(32));
  plan.description.format = "npz";
  const auto written = write_archive(folder.path("x.safetensors"), kSafetensorsDriver, plan);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kLossy);
  EXPECT_NE(written.error().message.find("\"z\""), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Convert, ShardsAndReadsThemBackAsOneArchive) {
  const TempFolder folder;
  WriteSettings settings;
  settings.format.shard_size = 20;
  const auto report = write_archive(folder.path("m.safetensors"), kSafetensorsDriver, plain_plan(), settings);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors",
                                                      "m.safetensors.index.json"}));
  const auto single = write_archive_bytes(kSafetensorsDriver, plain_plan());
  const Archive whole = open_or_die(kSafetensorsDriver, *single);
  EXPECT_EQ(digest_of(open_path(folder.path())), digest_of(whole));
  EXPECT_EQ(digest_of(open_path(folder.path("m.safetensors.index.json"))), digest_of(whole));
}

TEST(Convert, RefusesIndexesThatLeadOutOfTheirFolder) {
  const TempFolder folder;
  folder.write("m.safetensors.index.json", R"({"weight_map":{"a":"../secret.safetensors"}})");
  const auto archive = open_archive(folder.path());
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().code, ErrorCode::kCorrupt);
  folder.write("m.safetensors.index.json", R"({"weight_map":{"a":"missing.safetensors"}})");
  EXPECT_FALSE(open_archive(folder.path()));
}

TEST(Convert, AProviderThatWritesTooLittleLeavesTheOldFile) {
  const TempFolder folder;
  folder.write("a.safetensors", "old");
  WritePlan plan;
  plan.add_tensor(make_info("w", DType::kF32, {2}), [](ByteSink& sink) { return sink.write_zeros(4); });
  WriteSettings settings;
  settings.commit.overwrite = true;
  const auto report = write_archive(folder.path("a.safetensors"), kSafetensorsDriver, plan, settings);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("\"w\""), std::string::npos);
  EXPECT_EQ(read_text_file(folder.path("a.safetensors")), "old");
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(Convert, CancellingLeavesNothingBehind) {
  const TempFolder folder;
  WriteSettings settings;
  settings.progress = [](const ProgressUpdate&) { return false; };
  const auto report = write_archive(folder.path("a.safetensors"), kSafetensorsDriver, plain_plan(), settings);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(folder.names().empty());
}

TEST(WriteOptions, ThatAFormatDoesNotHaveAreRefused) {
  WriteOptions options;
  options.compress = true;
  EXPECT_FALSE(check_write_options(kSafetensorsDriver, options));
  options = {};
  options.target = "burn-0.20";
  EXPECT_FALSE(check_write_options(kSafetensorsDriver, options));
}

TEST(Convert, AppliesEditsInOrderToThePlan) {
  const TempFolder folder;
  const std::string path = folder.path("out.safetensors");
  ConvertOptions options;
  const auto append = [](const char* ending) -> PlanEdit {
    return [ending](WritePlan& plan, std::vector<std::string>& notes) -> Status {
      for (TensorInfo& tensor : plan.description.tensors) tensor.name += ending;
      notes.emplace_back(ending);
      return {};
    };
  };
  options.only = {"bias"};
  options.edits = {append("a"), append("b")};
  const auto report = convert_plan(plain_plan(), path, kSafetensorsDriver, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->notes, (std::vector<std::string>{"a", "b"}));
  const Archive written = open_path(path);
  ASSERT_EQ(written.tensors().size(), 1U);
  EXPECT_EQ(written.tensors()[0].name, "layer.0.biasab");
}

}  // namespace
}  // namespace ballast::testing
