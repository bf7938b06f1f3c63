#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/param_id.h"
#include "ballast/formats/drivers.h"
#include "tests/formats/gptrs_builder.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Archive open_checkpoint(ByteVector bytes) { return open_or_die(kGptrsCheckpointDriver, std::move(bytes)); }

ByteVector variant(const std::string& name) { return read_test_data("gptrs/variants/" + name + ".gptrs"); }

ByteVector payload(const Archive& archive, std::string_view name) {
  const auto index = archive.find(name);
  EXPECT_TRUE(index.has_value()) << name;
  if (!index) return {};
  const auto bytes = archive.payload(*index);
  EXPECT_TRUE(bytes.has_value());
  return {bytes->bytes().begin(), bytes->bytes().end()};
}

std::vector<std::string> names(const Archive& archive) {
  std::vector<std::string> list;
  for (const TensorInfo& tensor : archive.tensors()) list.push_back(tensor.name);
  return list;
}

// ---------------------------------------------------------------- byte for byte

// `a.w` f32 [1,2] = {1, -2.5}, `b` i32 [2] = {1, -1}, real ids, config {"kind":"gpt","config":{}}.
ByteVector sample() {
  return from_hex(
      "47 50 54 52 53 43 48 4b 02 00 00 00 1a 00 00 00 7b 22 6b 69 6e 64 22 3a 22 67 70 74 22 2c 22 63"
      "6f 6e 66 69 67 22 3a 7b 7d 7d 7a 00 00 00 02 00 00 00 03 00 00 00 61 2e 77 f3 e5 bf 8c 8b b3 d0"
      "0b 0f 6d 5e e4 81 e0 bc ca 02 00 00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00"
      "00 00 a8 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00 01 00 00 00 62 10 e5 cf 3d 3c 8a 4f 9f 34"
      "68 c8 cc 58 ee a8 48 01 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 b0 00 00 00 00 00 00 00"
      "08 00 00 00 00 00 00 00 00 00 80 3f 00 00 20 c0 01 00 00 00 ff ff ff ff");
}

ByteVector sample_with_zero_ids() {
  ByteVector bytes = sample();
  std::fill_n(bytes.begin() + 0x39, 16, std::byte{0});
  std::fill_n(bytes.begin() + 0x77, 16, std::byte{0});
  return bytes;
}

Description sample_description() {
  Description description;
  description.config = ModelConfig{"gptrs", R"({"kind":"gpt","config":{}})"};
  description.tensors.resize(2);
  description.tensors[0].name = "b";
  description.tensors[0].dtype = DType::kI32;
  description.tensors[0].shape = {2};
  description.tensors[0].byte_size = 8;
  description.tensors[1].name = "a.w";
  description.tensors[1].shape = {1, 2};
  description.tensors[1].byte_size = 8;
  return description;
}

TEST(GptrsCheckpoint, ReadsTheSampleOfTheSpecification) {
  const Archive archive = open_checkpoint(sample());
  EXPECT_EQ(archive.description().config->text, R"({"kind":"gpt","config":{}})");
  EXPECT_THAT(names(archive), ElementsAre("a.w", "b"));
  EXPECT_EQ(archive.tensors()[0].dtype, DType::kF32);
  EXPECT_EQ(archive.tensors()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(archive.tensors()[1].dtype, DType::kI32);
  EXPECT_EQ(payload(archive, "a.w"), from_hex("0000803f 000020c0"));
  EXPECT_EQ(payload(archive, "b"), from_hex("01000000 ffffffff"));
  EXPECT_EQ(archive.tensors()[0].stored_form(), "");
}

TEST(GptrsCheckpoint, AFreshFileIsSortedByNameAndHasRealIds) {
  const Archive archive = open_checkpoint(sample());
  const Description description = sample_description();
  ArchiveFeed feed(archive, description);
  const auto written = encode(kGptrsCheckpointDriver, description, feed, {});
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(*written, sample());
}

TEST(GptrsCheckpoint, AConversionKeepsTheOrder) {
  const Archive archive = open_checkpoint(sample());
  const Description description = sample_description();
  ArchiveFeed feed(archive, description);
  WriteOptions options;
  options.keep_order = true;
  const auto written = encode(kGptrsCheckpointDriver, description, feed, options);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_THAT(names(open_checkpoint(*written)), ElementsAre("b", "a.w"));
}

TEST(GptrsCheckpoint, SortsByBytesSoThatBlock10ComesBeforeBlock2) {
  GptrsFileSpec spec;
  for (const char* name : {"blocks.2.w", "blocks.10.w", "b_qkv", "b_out", "B"}) spec.entries.push_back({name, {0}});
  const Archive archive = open_checkpoint(build_gptrs(spec));
  ArchiveFeed feed(archive, archive.description());
  const auto written = encode(kGptrsCheckpointDriver, archive.description(), feed, {});
  ASSERT_TRUE(written.has_value());
  EXPECT_THAT(names(open_checkpoint(*written)), ElementsAre("B", "b_out", "b_qkv", "blocks.10.w", "blocks.2.w"));
}

TEST(GptrsCheckpoint, KeepsIdsThatWereStoredAsZero) {
  const Archive archive = open_checkpoint(sample_with_zero_ids());
  EXPECT_EQ(archive.tensors()[0].stored_form(), "id=0");
  EXPECT_EQ(archive.description().producer, "gpt.rs (Python exporter)");
  const auto written = encode_again(kGptrsCheckpointDriver, archive);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, sample_with_zero_ids());
}

TEST(GptrsCheckpoint, WritesRealIdsWhenFormsAreNotKept) {
  const Archive archive = open_checkpoint(sample_with_zero_ids());
  ArchiveFeed feed(archive, archive.description());
  WriteOptions options;
  options.keep_form = false;
  const auto written = encode(kGptrsCheckpointDriver, archive.description(), feed, options);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, sample());
}

TEST(GptrsCheckpoint, IgnoresFormsOfOtherFormats) {
  const Archive archive = open_checkpoint(sample_with_zero_ids());
  Description description = archive.description();
  description.format = "another";
  ArchiveFeed feed(archive, description);
  const auto written = encode(kGptrsCheckpointDriver, description, feed, {});
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, sample());
}

TEST(GptrsCheckpoint, ReadsVersion1) {
  const Archive archive = open_checkpoint(
      from_hex("47 50 54 52 53 43 48 4b 01 00 00 00 02 00 00 00 7b 7d 01 00 00 00 03 00 00 00 61 2e 77 02 00 00 00 01 "
               "00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 01 08 00 00 00 00 00 00 00 00 00 80 3f 00 00 "
               "20 c0"));
  EXPECT_EQ(archive.description().version, "1");
  EXPECT_EQ(archive.description().config->text, "{}");
  ASSERT_THAT(names(archive), ElementsAre("a.w"));
  EXPECT_EQ(archive.tensors()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(archive.tensors()[0].requires_grad, true);
  EXPECT_EQ(payload(archive, "a.w"), from_hex("0000803f 000020c0"));
}

// ---------------------------------------------------------------- files as gpt.rs takes them

TEST(GptrsCheckpoint, Version1HoldsTheSameAsVersion2) {
  const Archive modern = open_checkpoint(read_test_data("gptrs/gpt_micro/model.gptrs"));
  const Archive old = open_checkpoint(variant("v1_sequential"));
  EXPECT_EQ(old.description().version, "1");
  EXPECT_EQ(names(old).front(), "tok_embeddings.weight");  // in the model's order
  ASSERT_EQ(old.tensors().size(), modern.tensors().size());
  for (const TensorInfo& tensor : modern.tensors()) {
    const auto index = old.find(tensor.name);
    ASSERT_TRUE(index.has_value()) << tensor.name;
    EXPECT_EQ(old.tensors()[*index].shape, tensor.shape);
    EXPECT_EQ(payload(old, tensor.name), payload(modern, tensor.name));
  }
}

TEST(GptrsCheckpoint, Version1IsWrittenAsVersion2WithTheSameContent) {
  const Archive old = open_checkpoint(variant("v1_sequential"));
  const auto written = encode_again(kGptrsCheckpointDriver, old);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const Archive again = open_checkpoint(*written);
  EXPECT_EQ(again.description().version, "2");
  EXPECT_TRUE(same_content_description(again.description(), old.description()));
  EXPECT_EQ(again.description().stored_form, old.description().stored_form);
  for (const TensorInfo& tensor : old.tensors()) EXPECT_EQ(payload(again, tensor.name), payload(old, tensor.name));
}

TEST(GptrsCheckpoint, TakesAnUntaggedConfigAsItIs) {
  const std::string text =
      R"({"vocab_size":19,"context_length":12,"embed_dim":8,"num_layers":2,"num_heads":2,"mlp_ratio":2,"dropout":0.0})";
  EXPECT_EQ(open_checkpoint(variant("untagged_legacy")).description().config->text, text);
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, variant("untagged_legacy"));
  ASSERT_NE(verified.find("untagged_config"), nullptr);
  EXPECT_EQ(verified.find("untagged_config")->severity, Severity::kNote);
  EXPECT_EQ(verify_bytes(kGptrsCheckpointDriver, variant("ids_nonzero")).find("untagged_config"), nullptr);
}

TEST(GptrsCheckpoint, TagsAnUntaggedConfigWhenFormsAreNotKept) {
  for (const char* name : {"untagged_legacy", "v1_sequential"}) {
    const Archive archive = open_checkpoint(variant(name));
    ArchiveFeed feed(archive, archive.description());
    WriteOptions options;
    options.keep_form = false;
    const auto written = encode(kGptrsCheckpointDriver, archive.description(), feed, options);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const Description tagged = open_checkpoint(*written).description();
    EXPECT_EQ(tagged.config->text, R"({"kind":"gpt","config":)" + archive.description().config->text + "}");
    EXPECT_EQ(tagged.stored_form, "");
  }
}

TEST(GptrsCheckpoint, RefusesAWrongBaseId) {
  const Error error = open_error(kGptrsCheckpointDriver, variant("ids_wrong"));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("blocks.0.attention.w_qkv"));
  EXPECT_THAT(error.message, HasSubstr("00000000000000000000000000000001"));
  EXPECT_THAT(error.message, HasSubstr("4c34ecf277cd4577a86581edf86e2ae7"));
}

TEST(GptrsCheckpoint, RefusesNamesThatAreNotAscii) {
  const Error error = open_error(kGptrsCheckpointDriver, variant("name_non_ascii"));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("gr\xC3\xB6\xC3\x9F\x65"));
}

TEST(GptrsCheckpoint, RefusesVersionsItDoesNotKnow) {
  const Error error = open_error(kGptrsCheckpointDriver, variant("version_3"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("version 3"));
}

TEST(GptrsCheckpoint, RefusesAFileCutInsideAPayload) {
  const Error error = open_error(kGptrsCheckpointDriver, variant("truncated_payload"));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("tok_embeddings.weight"));
  EXPECT_THAT(error.message, HasSubstr("cut short"));
}

TEST(GptrsCheckpoint, GivesTheLastOfTwoNamesakes) {
  const Archive archive = open_checkpoint(variant("duplicate_last_differs"));
  EXPECT_EQ(archive.tensors().size(), 29U);
  const std::string twin = names(archive).back();
  const ByteVector bytes = payload(archive, twin);
  for (size_t at = 0; at < bytes.size(); at += 4) EXPECT_EQ(load_le<uint32_t>(&bytes[at]), 0x41100000U);  // 9.0f
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, variant("duplicate_last_differs"));
  ASSERT_NE(verified.find("duplicate_name"), nullptr);
  EXPECT_EQ(verified.find("duplicate_name")->severity, Severity::kWarning);
  EXPECT_EQ(verified.find("duplicate_name")->tensor, twin);
  EXPECT_EQ(verified.findings.items().size(), 1U);
}

TEST(GptrsCheckpoint, GivesTheLastOfManyNamesakesInTheRightOrder) {
  GptrsFileSpec spec;
  for (const char* name : {"x", "a", "x", "b", "a", "x"}) {
    spec.entries.push_back({name, {1}, 3, std::string(4, static_cast<char>('0' + spec.entries.size()))});
  }
  const Archive archive = open_checkpoint(build_gptrs(spec));
  EXPECT_THAT(names(archive), ElementsAre("b", "a", "x"));
  EXPECT_EQ(payload(archive, "b"), to_byte_vector("3333"));
  EXPECT_EQ(payload(archive, "a"), to_byte_vector("4444"));
  EXPECT_EQ(payload(archive, "x"), to_byte_vector("5555"));
}

TEST(GptrsCheckpoint, ReadsATensorWithoutDimensions) {
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, variant("rank0_used"));
  ASSERT_NE(verified.find("rank_0"), nullptr);
  EXPECT_EQ(verified.find("rank_0")->severity, Severity::kWarning);
  const Archive archive = open_checkpoint(variant("rank0_used"));
  const auto scalar = archive.find(verified.find("rank_0")->tensor);
  ASSERT_TRUE(scalar.has_value());
  EXPECT_EQ(archive.tensors()[*scalar].shape.rank(), 0U);
  EXPECT_EQ(archive.tensors()[*scalar].byte_size, 4U);
}

TEST(GptrsCheckpoint, StoresAScalarAsAVectorOfOne) {
  GptrsFileSpec spec;
  spec.entries = {{"scale", {}, 0, "abcd"}};
  const Archive archive = open_checkpoint(build_gptrs(spec));
  const auto written = encode_again(kGptrsCheckpointDriver, archive);
  ASSERT_TRUE(written.has_value());
  const Archive again = open_checkpoint(*written);
  EXPECT_EQ(again.tensors()[0].shape, Shape{1});
  EXPECT_EQ(payload(again, "scale"), to_byte_vector("abcd"));
}

TEST(GptrsCheckpoint, TakesTheRequiresGradByteAndWritesItBack) {
  GptrsFileSpec spec;
  spec.entries = {{"a", {0}, 0, "", 0}, {"b", {0}, 0, "", 1}, {"c", {0}, 0, "", 7}};
  const Archive archive = open_checkpoint(build_gptrs(spec));
  EXPECT_EQ(archive.tensors()[0].requires_grad, false);
  EXPECT_EQ(archive.tensors()[1].requires_grad, true);
  EXPECT_EQ(archive.tensors()[2].requires_grad, true);
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, build_gptrs(spec));
  ASSERT_NE(verified.find("requires_grad"), nullptr);
  EXPECT_EQ(verified.find("requires_grad")->tensor, "c");
  EXPECT_EQ(verified.findings.items().size(), 1U);
  const auto written = encode_again(kGptrsCheckpointDriver, archive);
  ASSERT_TRUE(written.has_value());
  spec.entries[2].flag = 1;
  EXPECT_EQ(*written, build_gptrs(spec));
}

TEST(GptrsCheckpoint, ReportsTrailingBytes) {
  EXPECT_EQ(open_checkpoint(variant("trailing_garbage")).tensors().size(), 29U);
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, variant("trailing_garbage"));
  ASSERT_NE(verified.find("trailing_bytes"), nullptr);
  EXPECT_EQ(verified.find("trailing_bytes")->severity, Severity::kWarning);
  EXPECT_EQ(verified.find("trailing_bytes")->offset, 8866U);
}

TEST(GptrsCheckpoint, ReportsHolesOverlapsAndDisorder) {
  GptrsFileSpec spec;
  spec.entries = {{"a", {2}, 0, "aaaaaaaa"}, {"b", {1}, 0, "bbbb"}, {"c", {1}, 0, "cccc"}};
  const uint64_t start = open_checkpoint(build_gptrs(spec)).extent(0).offset;
  spec.entries[0].offset = start + 8;
  spec.entries[1].offset = start;
  spec.entries[2].offset = start + 12;
  const Archive archive = open_checkpoint(build_gptrs(spec));
  EXPECT_THAT(names(archive), ElementsAre("a", "b", "c"));
  EXPECT_EQ(payload(archive, "a"), to_byte_vector("bbbbcccc"));
  EXPECT_EQ(payload(archive, "b"), to_byte_vector("aaaa"));
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, build_gptrs(spec));
  ASSERT_NE(verified.find("payload_order"), nullptr);
  EXPECT_EQ(verified.find("payload_order")->severity, Severity::kNote);
  ASSERT_NE(verified.find("hole"), nullptr);
  EXPECT_EQ(verified.find("hole")->offset, start + 4);
  EXPECT_EQ(verified.find("hole")->tensor, "a");
  ASSERT_NE(verified.find("overlap"), nullptr);
  EXPECT_EQ(verified.find("overlap")->tensor, "c");
  EXPECT_EQ(verified.find("trailing_bytes"), nullptr);
}

TEST(GptrsCheckpoint, ReportsBytesLeftOverInTheIndex) {
  GptrsFileSpec spec;
  spec.entries = {{"a", {1}, 0, "aaaa"}};
  spec.index_trailing = "???";
  EXPECT_EQ(payload(open_checkpoint(build_gptrs(spec)), "a"), to_byte_vector("aaaa"));
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, build_gptrs(spec));
  ASSERT_NE(verified.find("index_trailing_bytes"), nullptr);
  EXPECT_EQ(verified.findings.items().size(), 1U);
}

TEST(GptrsCheckpoint, ReadsHalfTypes) {
  GptrsFileSpec spec;
  spec.entries = {{"f", {2}, 1, "abcd"}, {"g", {2}, 2, "efgh"}};
  const Archive archive = open_checkpoint(build_gptrs(spec));
  EXPECT_EQ(archive.tensors()[0].dtype, DType::kF16);
  EXPECT_EQ(archive.tensors()[1].dtype, DType::kBF16);
  EXPECT_EQ(payload(archive, "g"), to_byte_vector("efgh"));
}

TEST(GptrsCheckpoint, ReadsEveryAsciiName) {
  GptrsFileSpec spec;
  for (const std::string& name : {std::string(), std::string("\0", 1), std::string("a/b"), std::string(300, 'x')}) {
    spec.entries.push_back({name, {1}, 0, "abcd"});
  }
  const Archive archive = open_checkpoint(build_gptrs(spec));
  EXPECT_EQ(archive.tensors().size(), 4U);
  EXPECT_EQ(payload(archive, ""), to_byte_vector("abcd"));
  const auto written = encode_again(kGptrsCheckpointDriver, archive);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, build_gptrs(spec));
}

TEST(GptrsCheckpoint, RefusesADamagedConfig) {
  for (const char* text : {"", "[]", "{\"kind\":\"gpt\"", "{\"kind\":5}", "{\"a\":\"\xFF\"}"}) {
    GptrsFileSpec spec;
    spec.config = text;
    const Error error = open_error(kGptrsCheckpointDriver, build_gptrs(spec));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << text;
    EXPECT_THAT(error.message, HasSubstr("config")) << text;
  }
}

TEST(GptrsCheckpoint, VerifyGoesOnBehindADamagedConfig) {
  GptrsFileSpec spec;
  spec.config = "nonsense";
  spec.entries = {{"a", {1}, 0, "aaaa", 0, std::string(16, 'x')}, {"b", {1}, 9, "bbbb"}, {"c", {3}, 0, "cccc"}};
  const Verified verified = verify_bytes(kGptrsCheckpointDriver, build_gptrs(spec));
  EXPECT_TRUE(verified.readable);
  EXPECT_NE(verified.find("config"), nullptr);
  EXPECT_NE(verified.find("base_id"), nullptr);
  EXPECT_NE(verified.find("dtype"), nullptr);
  EXPECT_NE(verified.find("size"), nullptr);
  EXPECT_EQ(verified.count(Severity::kError), 4U);
}

// ---------------------------------------------------------------- what cannot be written

Description describe_one(DType dtype, std::string name = "w") {
  Description description;
  description.config = ModelConfig{"gptrs", R"({"kind":"gpt","config":{}})"};
  description.tensors.resize(1);
  description.tensors[0].name = std::move(name);
  description.tensors[0].dtype = dtype;
  description.tensors[0].shape = {2};
  description.tensors[0].byte_size = packed_size({2}, dtype).value_or(3);
  return description;
}

TEST(GptrsCheckpoint, WritesHalfTypesOnlyWhenAsked) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto losses = kGptrsCheckpointDriver.find_losses(describe_one(dtype), {});
    ASSERT_EQ(losses.size(), 1U);
    EXPECT_EQ(losses[0].cast_to, DType::kF32);
    EXPECT_EQ(losses[0].remedies, Remedy::kAllowHalf);
    WriteOptions options;
    options.allow_half = true;
    EXPECT_TRUE(kGptrsCheckpointDriver.find_losses(describe_one(dtype), options).empty());
  }
}

TEST(GptrsCheckpoint, NeverCastsToAHalfType) {
  WriteOptions options;
  options.allow_half = true;
  for (const DTypeInfo& type : all_dtypes()) {
    for (const Loss& loss : kGptrsCheckpointDriver.find_losses(describe_one(type.dtype), options)) {
      EXPECT_TRUE(loss.drop || loss.cast_to == DType::kF32 || loss.cast_to == DType::kI32) << type.name;
    }
  }
  EXPECT_EQ(kGptrsCheckpointDriver.find_losses(describe_one(DType::kF64), {})[0].cast_to, DType::kF32);
  EXPECT_EQ(kGptrsCheckpointDriver.find_losses(describe_one(DType::kI64), {})[0].cast_to, DType::kI32);
  EXPECT_TRUE(kGptrsCheckpointDriver.find_losses(describe_one(DType::kQFloat), {})[0].drop);
}

TEST(GptrsCheckpoint, CannotHoldNamesThatAreNotAscii) {
  const auto losses = kGptrsCheckpointDriver.find_losses(describe_one(DType::kF32, "gr\xC3\xB6\xC3\x9F\x65"), {});
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_FALSE(losses[0].drop || losses[0].acceptable || losses[0].cast_to);
  const Description description = describe_one(DType::kF32, "gr\xC3\xB6\xC3\x9F\x65");
  const auto planned = kGptrsCheckpointDriver.plan_write({description, {}, "file"});
  ASSERT_FALSE(planned.has_value());
  EXPECT_EQ(planned.error().code, ErrorCode::kLossy);
}

TEST(GptrsCheckpoint, NeedsAConfigOfItsOwnKind) {
  const auto plan_error = [](std::optional<ModelConfig> config) {
    Description description = describe_one(DType::kF32);
    description.config = std::move(config);
    const auto planned = kGptrsCheckpointDriver.plan_write({description, {}, "file"});
    EXPECT_FALSE(planned.has_value());
    return planned ? make_error(ErrorCode::kNotFound, "planned") : planned.error();
  };
  for (const auto& config : {std::optional<ModelConfig>(), std::optional(ModelConfig{"netcl", "{\"kind\":\"x\"}"})}) {
    EXPECT_EQ(plan_error(config).code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(plan_error(config).remedies, Remedy::kGiveConfig);
  }
  for (const char* text : {"", "[]", "{", "{\"kind\":5}", "{\"vocab_size\":19}"}) {
    const Error error = plan_error(ModelConfig{"gptrs", text});
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(error.message, HasSubstr("model config")) << text;
  }
}

// ---------------------------------------------------------------- ballast.origin

TEST(GptrsCheckpoint, CarriesAnOriginInsideTheConfig) {
  for (const char* config : {"{\"kind\":\"gpt\",\"config\":{}}", "{\n  \"kind\": \"gpt\"\n}\n"}) {
    GptrsFileSpec spec;
    spec.config = config;
    spec.entries = {{"a", {1}, 0, "aaaa"}};
    const Archive archive = open_checkpoint(build_gptrs(spec));
    Description description = archive.description();
    description.origin = R"({"format":"x"})";
    ArchiveFeed feed(archive, description);
    const auto written = encode(kGptrsCheckpointDriver, description, feed, {});
    ASSERT_TRUE(written.has_value());
    EXPECT_NE(*written, build_gptrs(spec));
    const Archive carrier = open_checkpoint(*written);
    EXPECT_EQ(carrier.description().origin, description.origin);
    EXPECT_EQ(carrier.description().config->text, config);
    // Written without it, the file is what it was.
    Description plain = carrier.description();
    plain.origin.reset();
    const auto again = encode(kGptrsCheckpointDriver, plain, feed, {});
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, build_gptrs(spec));
  }
}

TEST(GptrsCheckpoint, DropsTheOriginOfAnotherFileFromAGivenConfig) {
  Description description = describe_one(DType::kF32);
  description.config->text = R"({"kind":"gpt","ballast.origin":"of another file"})";
  class Zeros final : public TensorFeed {
    Status emit(size_t, PayloadForm, ByteSink& sink) override { return sink.write_zeros(8); }
  } feed;
  const auto written = encode(kGptrsCheckpointDriver, description, feed, {});
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(open_checkpoint(*written).description().config->text, R"({"kind":"gpt"})");
  EXPECT_FALSE(open_checkpoint(*written).description().origin.has_value());
}

TEST(GptrsCheckpoint, IsFoundByExtension) {
  EXPECT_EQ(format_for_extension("model.gptrs"), &kGptrsCheckpointDriver);
  EXPECT_EQ(format_for_extension("MODEL.BIN"), &kGptrsCheckpointDriver);
}

}  // namespace
}  // namespace ballast::testing
