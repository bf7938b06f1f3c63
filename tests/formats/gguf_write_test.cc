// What is written, what cannot be, and sets of several files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"
#include "ballast/formats/payload_order.h"
#include "tests/support/format_testing.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/memory_archive.h"
#include "tests/support/memory_plan.h"
#include "tests/support/memory_siblings.h"
#include "tests/support/mutation.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MemoryPlan plan_of(std::vector<TensorInfo> tensors) {
  static const ByteVector bytes = counting_bytes(4096);
  MemoryPlan plan;
  for (TensorInfo& tensor : tensors) {
    const size_t size = tensor.byte_size;
    plan.add_tensor(std::move(tensor), ByteSpan(bytes).first(size));
  }
  return plan;
}

ByteVector written_gguf(MemoryPlan plan) {
  auto bytes = plan.write(kGgufDriver);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? *bytes : ByteVector();
}

// ---------------------------------------------------------------- values

MetaType type_of(MetaValue value) { return default_gguf_type(value); }

TEST(GgufValues, TakeTheUsualTypeThatHoldsThem) {
  EXPECT_EQ(type_of(uint64_t{UINT32_MAX}), MetaType::kU32);
  EXPECT_EQ(type_of(uint64_t{UINT32_MAX} + 1), MetaType::kU64);
  EXPECT_EQ(type_of(int64_t{INT32_MIN}), MetaType::kI32);
  EXPECT_EQ(type_of(int64_t{INT32_MIN} - 1), MetaType::kI64);
  EXPECT_EQ(type_of(0.5), MetaType::kF32);
  EXPECT_EQ(type_of(0.1), MetaType::kF64);
  EXPECT_EQ(type_of(1e300), MetaType::kF64);
  EXPECT_EQ(type_of(-std::numeric_limits<double>::infinity()), MetaType::kF32);
  EXPECT_EQ(type_of(true), MetaType::kBool);
  EXPECT_EQ(type_of(std::string()), MetaType::kText);
}

TEST(GgufValues, KeepEveryBitOfANan) {
  for (const uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0xFFFFFFFFU}) {
    const MetaValue value = gguf_value(MetaType::kF32, bits);
    EXPECT_EQ(type_of(value), MetaType::kF32);
    EXPECT_EQ(gguf_bits(MetaType::kF32, value), bits);
  }
  EXPECT_EQ(type_of(std::bit_cast<double>(0x7FF8000000000001)), MetaType::kF64);
}

TEST(GgufValues, OfEveryWidthComeBackAsTheyWere) {
  GgufBuilder file;
  file.pair("u8", MetaType::kU8, "\x07").pair("i8", MetaType::kI8, "\xF9").pair("u16", MetaType::kU16, "ab");
  file.pair("i16", MetaType::kI16, "\xFF\xFF").pair("u64", MetaType::kU64, GgufBuilder::number(uint64_t{7}));
  file.pair("i64", MetaType::kI64, GgufBuilder::number(UINT64_MAX));
  file.pair("f64", MetaType::kF64, GgufBuilder::number(std::bit_cast<uint64_t>(0.5)));
  file.pair("x\ny", MetaType::kU8, "1").pair("\xFF\xFE", MetaType::kU8, "2");
  file.pair("bytes", MetaType::kText, GgufBuilder::text("\xFF\x00\x80"));
  const ByteVector bytes = to_byte_vector(file.build());
  const Archive archive = open_or_die(kGgufDriver, bytes);
  EXPECT_EQ(std::get<int64_t>(archive.description().metadata[1].value), -7);
  EXPECT_EQ(*encode_again(kGgufDriver, archive), bytes);
}

TEST(GgufValues, ThatNoLongerFitTheirOldTypeTakeTheUsualOne) {
  Description description =
      open_or_die(kGgufDriver, to_byte_vector(GgufBuilder().pair("n", MetaType::kU8, "\x07").build())).description();
  EXPECT_EQ(description.stored_form, "type.u8=n");
  description.metadata[0].value = uint64_t{300};
  ArchiveFeed no_tensors(open_or_die(kGgufDriver, to_byte_vector(GgufBuilder().build())), description);
  const auto bytes = encode(kGgufDriver, description, no_tensors, {});
  ASSERT_TRUE(bytes);
  EXPECT_EQ(as_text(*bytes), GgufBuilder().pair("n", 300).build());
}

// ---------------------------------------------------------------- the layout

TEST(GgufWrite, PadsEveryTensorToTheAlignment) {
  MemoryPlan plan = plan_of({make_info("b", DType::kF32, {3, 2}), make_info("a", DType::kI8, {5})});
  plan.description.metadata = {{"general.alignment", uint64_t{16}}};
  const ByteVector counted = counting_bytes(24);
  const std::string expected = GgufBuilder()
                                   .alignment(16)
                                   .tensor("b", {2, 3}, 0, std::string(as_text(counted)))
                                   .tensor("a", {5}, 24, std::string(as_text(counted).substr(0, 5)))
                                   .build();
  EXPECT_EQ(as_text(written_gguf(plan)), expected);
}

TEST(GgufWrite, WritesNothingBehindTheMetadataWithoutTensors) {
  MemoryPlan plan = plan_of({});
  plan.description.metadata = {{"k", std::string("v")}};
  EXPECT_EQ(as_text(written_gguf(plan)), GgufBuilder().pair("k", MetaType::kText, GgufBuilder::text("v")).build());
}

TEST(GgufWrite, LeavesOutMetadataThatReadersWouldRefuse) {
  MemoryPlan plan = plan_of({});
  plan.description.metadata = {{"", std::string("no key")},
                               {"k", uint64_t{1}},
                               {"k", uint64_t{2}},
                               {"general.alignment", uint64_t{3}},
                               {"split.count", uint64_t{5}}};
  EXPECT_EQ(as_text(written_gguf(plan)), GgufBuilder().pair("k", 1).build());
}

TEST(GgufWrite, KeepsTheOriginOutOfTheMetadata) {
  MemoryPlan plan = plan_of({make_info("a", DType::kF32, {1})});
  plan.description.origin = "somewhere";
  const Archive archive = open_or_die(kGgufDriver, written_gguf(plan));
  EXPECT_EQ(archive.description().origin, "somewhere");
  EXPECT_TRUE(archive.description().metadata.empty());
}

TEST(GgufWrite, ATargetAsksForWhatEveryReaderTakes) {
  const Archive big = open_or_die(kGgufDriver, read_test_data("gguf/small/v3_big_endian.gguf"));
  ArchiveFeed feed(big, big.description());
  WriteOptions options;
  options.target = "v3";
  const auto bytes = encode(kGgufDriver, big.description(), feed, options);
  ASSERT_TRUE(bytes);
  const Archive little = open_or_die(kGgufDriver, *bytes);
  EXPECT_EQ(as_text(*bytes).substr(4, 4), std::string_view("\x03\0\0\0", 4));
  EXPECT_TRUE(same_content_description(little.description(), big.description()));
  for (size_t i = 0; i < big.tensors().size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(little.payload(i)->bytes(), big.payload(i)->bytes()));
  }
}

TEST(GgufWrite, BlocksSwapTheirScalesAlone) {
  for (const char* name :
       {"q4_0", "q4_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "tq1_0", "iq4_nl", "mxfp4"}) {
    const ByteVector bytes = read_test_data(fmt::format("gguf/quant/{}.gguf", name));
    const Archive little = open_or_die(kGgufDriver, bytes);
    Description description = little.description();
    description.stored_form = "big_endian";
    ArchiveFeed feed(little, description);
    const auto swapped = encode(kGgufDriver, description, feed, {});
    ASSERT_TRUE(swapped);
    const Archive big = open_or_die(kGgufDriver, *swapped);
    EXPECT_EQ(big.extent(0).big_endian, std::string_view(name) != "mxfp4");
    for (size_t i = 0; i < big.tensors().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(little.payload(i)->bytes(), big.payload(i)->bytes())) << name;
    }
  }
}

TEST(GgufWrite, RepairsOrderAndHolesOnTheWay) {
  const std::string eight(32, 'x');
  const std::string file = GgufBuilder()
                               .tensor_at({"late", {8}, 0, 64, eight})
                               .tensor_at({"early", {8}, 0, 0, eight})
                               .tensor_at({"rest", {8}, 0, 96, eight + eight})
                               .build();
  const Archive archive = open_or_die(kGgufDriver, to_byte_vector(file));
  const auto again = encode_again(kGgufDriver, archive);
  ASSERT_TRUE(again);
  EXPECT_TRUE(verify_bytes(kGgufDriver, *again).findings.items().empty());
}

// ---------------------------------------------------------------- losses

TEST(GgufLosses, AreNamedForTypesRanksAndNames) {
  const Description description =
      plan_of({make_info("u", DType::kU8, {2}), make_info("c", DType::kC64, {1}),
               make_info("deep", DType::kF32, {1, 2, 1, 2, 1}), make_info(std::string(64, 'n'), DType::kF32, {1}),
               make_info("fine", DType::kBF16, {1})})
          .description;
  const std::vector<Loss> losses = find_gguf_losses(description, {});
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_EQ(losses[0].cast_to, DType::kI32);
  EXPECT_TRUE(losses[1].drop);
  EXPECT_TRUE(losses[2].acceptable);
  EXPECT_THAT(losses[3].what, HasSubstr("64 bytes"));
  EXPECT_FALSE(losses[3].cast_to || losses[3].drop || losses[3].acceptable);
}

TEST(GgufLosses, ARankTooHighIsFolded) {
  const Archive archive =
      MemoryArchive().add_bytes(make_info("deep", DType::kF32, {2, 3, 1, 2, 1}), counting_bytes(48)).build();
  const auto bytes = encode_again(kGgufDriver, archive);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(open_or_die(kGgufDriver, *bytes).tensors()[0].shape, (Shape{6, 1, 2, 1}));
}

TEST(GgufLosses, EveryOtherTypeHasItsNumber) {
  size_t known = 0;
  for (const DTypeInfo& row : all_dtypes()) {
    const auto number = gguf_type(row.dtype);
    if (!number) continue;
    EXPECT_EQ(gguf_dtype(*number), row.dtype);
    ++known;
  }
  EXPECT_EQ(known, 35U);
}

// ---------------------------------------------------------------- sets

class GgufSet : public ::testing::Test {
 protected:
  void load(const std::string& folder, const std::string& stem, int count) {
    for (int i = 1; i <= count; ++i) {
      const std::string name = fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, count);
      files_.files[name] = read_test_data("gguf/" + folder + "/" + name);
    }
  }

  Result<Archive> open(const std::string& name) {
    Findings findings = Findings::stop_at_first_error();
    return kGgufDriver.open({files_.source(name), name, "", &files_}, findings);
  }

  MemorySiblings files_;
};

TEST_F(GgufSet, OpensAsOneArchiveFromAnyPart) {
  load("small", "split3", 3);
  for (int part = 1; part <= 3; ++part) {
    const auto archive = open(fmt::format("split3-{:05}-of-00003.gguf", part));
    ASSERT_TRUE(archive) << archive.error().message;
    EXPECT_EQ(archive->tensors().size(), 7U);
    EXPECT_EQ(archive->sources().size(), 3U);
    EXPECT_EQ(archive->extent(6).source, 2U);
    ASSERT_EQ(archive->description().metadata.size(), 2U) << "without the keys of the set";
    EXPECT_EQ(archive->description().metadata[1].key, "k");
    EXPECT_EQ(archive->description().stored_form, "");
    expect_sound(*archive);
  }
}

TEST_F(GgufSet, SaysThatItNeedsItsPath) {
  const Error error = open_error(kGgufDriver, read_test_data("gguf/small/split3-00002-of-00003.gguf"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("part 2 of 3"));
}

TEST_F(GgufSet, SaysWhenAPartWasRenamed) {
  files_.files["model.gguf"] = read_test_data("gguf/small/split3-00001-of-00003.gguf");
  const auto archive = open("model.gguf");
  ASSERT_FALSE(archive);
  EXPECT_THAT(archive.error().message, HasSubstr("-00001-of-00003.gguf"));
}

TEST_F(GgufSet, IsWrittenWhereAShardSizeIsGiven) {
  load("small", "split3", 3);
  const auto source = open("split3-00001-of-00003.gguf");
  ASSERT_TRUE(source);
  WriteOptions options;
  options.shard_size = 3 * source->tensors()[0].byte_size;
  const auto planned = kGgufDriver.plan_write({source->description(), options, "out.gguf"});
  ASSERT_TRUE(planned) << planned.error().message;
  ArchiveFeed feed(*source, source->description());
  std::vector<std::string> names;
  for (size_t i = 0; i < (*planned)->files().size(); ++i) {
    MemorySink sink;
    ASSERT_TRUE((*planned)->emit(i, sink, feed));
    EXPECT_EQ((*planned)->files()[i].size, sink.position());
    names.push_back((*planned)->files()[i].file_name);
    files_.files[names.back()] = sink.take();
  }
  ASSERT_GT(names.size(), 1U);
  EXPECT_EQ(names[0], fmt::format("out-00001-of-{:05}.gguf", names.size()));
  const auto again = open(names[0]);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(same_content_description(again->description(), source->description()));
}

TEST_F(GgufSet, IsTheSameBytesAsThoseOfGgufPy) {
  load("small", "split3", 3);
  const auto source = open("split3-00001-of-00003.gguf");
  ASSERT_TRUE(source);
  uint64_t largest_part = 0;
  for (size_t i = 0; i < 3; ++i) largest_part += source->tensors()[i].byte_size;
  uint64_t second_part = 0;
  for (size_t i = 3; i < 6; ++i) second_part += source->tensors()[i].byte_size;
  WriteOptions options;
  options.shard_size = std::max(largest_part, second_part);
  const auto planned = kGgufDriver.plan_write({source->description(), options, "split3.gguf"});
  ASSERT_TRUE(planned);
  ASSERT_EQ((*planned)->files().size(), 3U);
  ArchiveFeed feed(*source, source->description());
  for (size_t i = 0; i < 3; ++i) {
    MemorySink sink;
    ASSERT_TRUE((*planned)->emit(i, sink, feed));
    EXPECT_TRUE(sink.take() == read_test_data("gguf/small/" + (*planned)->files()[i].file_name)) << i;
  }
}

TEST_F(GgufSet, OfOneIsAnOrdinaryFile) {
  GgufBuilder file;
  file.pair("split.no", MetaType::kU16, std::string(2, '\0'))
      .pair("split.count", MetaType::kU16, std::string("\x01\0", 2));
  const ByteVector bytes = to_byte_vector(file.build());
  EXPECT_EQ(*encode_again(kGgufDriver, open_or_die(kGgufDriver, bytes)), bytes);
}

}  // namespace
}  // namespace ballast::testing
