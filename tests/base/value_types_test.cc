#include <gtest/gtest.h>

#include "ballast/base/byte_source.h"
#include "ballast/base/checked.h"
#include "ballast/base/dtype.h"
#include "ballast/base/hash.h"
#include "ballast/base/result.h"
#include "ballast/base/shape.h"

namespace ballast {
namespace {

TEST(Checked, NothingWraps) {
  EXPECT_EQ(checked_add(1, 2), 3U);
  EXPECT_FALSE(checked_add(UINT64_MAX, 1));
  EXPECT_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32));
  EXPECT_EQ(checked_align_up(257, 256), 512U);
  EXPECT_EQ(checked_align_up(256, 256), 256U);
  EXPECT_FALSE(checked_align_up(UINT64_MAX, 256));
  EXPECT_TRUE(range_fits(10, 0, 10));
  EXPECT_FALSE(range_fits(UINT64_MAX, 2, 10));
}

TEST(Errors, NameAContextOnce) {
  const auto told = [](std::string message, std::string_view context) {
    return make_error(ErrorCode::kCorrupt, std::move(message)).with_context(context).message;
  };
  EXPECT_EQ(told("it is cut short", "a.gguf"), "a.gguf: it is cut short");
  EXPECT_EQ(told("a.gguf: it is cut short", "a.gguf"), "a.gguf: it is cut short");
  EXPECT_EQ(told("a.gguf.part: it is cut short", "a.gguf"), "a.gguf: a.gguf.part: it is cut short");
  EXPECT_EQ(told("a", "a"), "a: a");
}

TEST(DTypes, NamesAreUniqueAndReadBack) {
  for (const DTypeInfo& row : all_dtypes()) EXPECT_EQ(parse_dtype(row.name), row.dtype);
  EXPECT_FALSE(parse_dtype("F32"));
}

TEST(Shapes, CountElementsWithoutWrapping) {
  EXPECT_EQ(Shape{}.element_count(), 1U);
  EXPECT_EQ((Shape{2, 3, 4, 5, 6}).element_count(), 720U);
  EXPECT_EQ((Shape{0, uint64_t{1} << 40, uint64_t{1} << 40}).element_count(), 0U);
  EXPECT_FALSE((Shape{uint64_t{1} << 40, uint64_t{1} << 40, 0}).element_count());
}

TEST(Shapes, SayHowManyBytesTheirTensorsHave) {
  EXPECT_TRUE(check_packed_size({2, 3}, DType::kF32, 24));
  EXPECT_EQ(check_packed_size({2, 3}, DType::kF32, 20).error().message, "f32 of shape [2, 3] has 24 bytes, not 20");
  const Status odd = check_packed_size({3}, DType::kQ4_0, 20);
  EXPECT_EQ(odd.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(odd.error().message, "q4_0 of shape [3] cannot be stored: it is too large, or no number of whole bytes");
}

TEST(Shapes, KeepTheirDimensionsWhenCopiedAndMoved) {
  const Shape small{2, 3};
  const Shape large{1, 2, 3, 4, 5, 6};
  Shape copy = large;
  EXPECT_EQ(copy, large);
  copy = small;
  EXPECT_EQ(copy, small);
  Shape moved = std::move(copy);
  EXPECT_EQ(moved, small);
  EXPECT_EQ(copy.rank(), 0U);  // NOLINT: a moved-from shape is rank 0, not garbage
  moved = large;
  EXPECT_EQ(moved.to_string(), "[1, 2, 3, 4, 5, 6]");
}

TEST(Shapes, PackedSizeKnowsPartialBytes) {
  EXPECT_EQ(packed_size({3, 2}, DType::kF32), 24U);
  EXPECT_EQ(packed_size({4}, DType::kF4), 2U);
  EXPECT_FALSE(packed_size({3}, DType::kF4));
  EXPECT_EQ(packed_size({4}, DType::kF6E2M3), 3U);
  EXPECT_FALSE(packed_size({3}, DType::kQFloat));
}

TEST(Hashing, MatchesTheOfficialBlake3Vectors) {
  EXPECT_EQ(to_hex(blake3({})), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  Blake3 pieces;
  pieces.update("a");
  pieces.update("bc");
  EXPECT_EQ(to_hex(pieces.finish()), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

TEST(MemorySources, RefuseRangesOutsideThemselves) {
  const auto source = MemorySource::owning(ByteVector(10), "ten");
  EXPECT_TRUE(source->view(10, 0));
  EXPECT_FALSE(source->view(5, 6));
  EXPECT_FALSE(source->view(UINT64_MAX, 2));
  const auto bytes = read_bytes(*source, 0, uint64_t{1} << 60);
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("ten"), std::string::npos);
}

TEST(Hex, RoundTrips) {
  EXPECT_EQ(to_hex(*parse_hex("00ffA1")), "00ffa1");
  EXPECT_FALSE(parse_hex("0"));
  EXPECT_FALSE(parse_hex("0g"));
}

TEST(SpanSink, FillsItsMemoryAndNoMore) {
  ByteVector memory(4);
  SpanSink sink(memory);
  ASSERT_TRUE(sink.write_text("ab"));
  EXPECT_FALSE(sink.finish());
  ASSERT_TRUE(sink.patch(1, as_bytes("x")));
  EXPECT_FALSE(sink.patch(2, as_bytes("y")));
  EXPECT_FALSE(sink.write_text("cde"));
  ASSERT_TRUE(sink.write_text("cd"));
  EXPECT_TRUE(sink.finish());
  EXPECT_EQ(as_text(memory), "axcd");
}

}  // namespace
}  // namespace ballast
