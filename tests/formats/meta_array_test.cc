#include "ballast/formats/meta_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/description.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MetaArray texts_of(std::vector<std::string_view> texts) { return MetaArray::of_texts(texts); }

MetaArray ints_of(std::vector<int32_t> values) { return MetaArray::of(std::span<const int32_t>(values)); }

std::string error_of(MetaType element, uint64_t count, std::string_view encoded) {
  const auto array = MetaArray::decode(element, count, as_bytes(encoded));
  return array ? "none" : array.error().message;
}

TEST(MetaArray, HoldsTextsOfAnyBytes) {
  const MetaArray array = texts_of({"", "a\xFF", "日本"});
  EXPECT_EQ(array.element(), MetaType::kText);
  EXPECT_EQ(array.size(), 3U);
  EXPECT_THAT(array.texts(), ElementsAre("", "a\xFF", "日本"));
  EXPECT_THAT(array.integers(), IsEmpty());
  EXPECT_THAT(array.numbers(), IsEmpty());
  EXPECT_THAT(array.arrays(), IsEmpty());
}

TEST(MetaArray, GivesNumbersOfEveryType) {
  using enum MetaType;
  const auto of = [](MetaType element, uint64_t count, std::string_view bytes) {
    return *MetaArray::decode(element, count, as_bytes(bytes));
  };
  EXPECT_THAT(of(kU8, 2, "\x01\xFF").integers(), ElementsAre(1, 255));
  EXPECT_THAT(of(kI8, 1, "\xFF").integers(), ElementsAre(-1));
  EXPECT_THAT(of(kU16, 1, "\xFE\xFF").integers(), ElementsAre(65534));
  EXPECT_THAT(of(kI16, 1, "\xFE\xFF").integers(), ElementsAre(-2));
  EXPECT_THAT(of(kU32, 1, "\xFF\xFF\xFF\xFF").integers(), ElementsAre(4294967295));
  EXPECT_THAT(of(kI32, 1, "\xFF\xFF\xFF\xFF").numbers(), ElementsAre(-1.0));
  EXPECT_THAT(of(kU64, 1, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").numbers(), ElementsAre(18446744073709551616.0));
  EXPECT_THAT(of(kI64, 1, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").integers(), ElementsAre(-1));
  EXPECT_THAT(of(kBool, 2, std::string_view("\x02\x00", 2)).integers(), ElementsAre(1, 0));
  EXPECT_THAT(of(kF32, 1, std::string_view("\x00\x00\xC0\x3F", 4)).numbers(), ElementsAre(1.5));
  EXPECT_THAT(of(kF32, 1, std::string_view("\x00\x00\xC0\x3F", 4)).integers(), IsEmpty());
}

TEST(MetaArray, HoldsArraysThatShareItsBytes) {
  const std::vector<MetaArray> inner = {ints_of({1, 2}), ints_of({}), ints_of({3})};
  std::vector<MetaArray> taken = MetaArray::of_arrays(inner).arrays();
  EXPECT_EQ(taken, inner) << "although the outer array is gone";
  const std::vector<MetaArray> outer = {MetaArray::of_arrays(inner)};
  EXPECT_EQ(MetaArray::of_arrays(outer).arrays()[0].arrays()[2].integers(), std::vector<int64_t>{3});
}

TEST(MetaArray, RefusesWhatIsNotThere) {
  EXPECT_THAT(error_of(MetaType::kU32, 2, "1234567"), HasSubstr("only 7 bytes"));
  EXPECT_THAT(error_of(MetaType::kU32, 1, "12345"), HasSubstr("1 bytes follow"));
  EXPECT_THAT(error_of(MetaType::kU64, uint64_t{1} << 61, ""), HasSubstr("announced"));
  EXPECT_THAT(error_of(MetaType::kText, 1, std::string_view("\x02\0\0\0\0\0\0\0a", 9)), HasSubstr("claims 2 bytes"));
  EXPECT_THAT(error_of(MetaType::kText, UINT64_MAX, "12345678"), HasSubstr("announced"));
  EXPECT_THAT(error_of(MetaType::kArray, 1, std::string_view("\x0D\0\0\0\0\0\0\0\0\0\0\0", 12)), HasSubstr("type 13"));
}

TEST(MetaArray, RefusesArraysWithoutEnd) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += std::string_view("\x09\0\0\0\x01\0\0\0\0\0\0\0", 12);
  EXPECT_THAT(error_of(MetaType::kArray, 1, bytes), HasSubstr("deep"));
}

TEST(MetaArray, ReadsAndWritesTheOtherByteOrder) {
  const std::vector<MetaArray> inner = {ints_of({1, -2}), texts_of({"abc", ""})};
  const MetaArray array = MetaArray::of_arrays(inner);
  const std::string big = array.encoded_as(ByteOrder::kBig);
  EXPECT_NE(big, array.encoded_as(ByteOrder::kLittle));
  uint64_t used = 0;
  const auto again = MetaArray::take(MetaType::kArray, 2, as_bytes(big + "more"), ByteOrder::kBig, used);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, array);
  EXPECT_EQ(used, big.size());
}

TEST(MetaArray, ReadsWellInAnErrorText) {
  EXPECT_EQ(texts_of({"<s>", "</s>", "x"}).to_text(2), "[3 texts] \"<s>\", \"</s>\", …");
  EXPECT_EQ(ints_of({7}).to_text(2), "[1 i32] 7");
  EXPECT_EQ(ints_of({}).to_text(2), "[0 i32s]");
  const std::vector<MetaArray> inner = {ints_of({1, 2, 3})};
  EXPECT_EQ(MetaArray::of_arrays(inner).to_text(2), "[1 array] [3 i32s] 1, 2, …");
}

TEST(MetaArray, IsAMetadataValueThatComparesByContent) {
  const MetaEntry entry{"tokens", texts_of({"a"})};
  EXPECT_TRUE(entry == (MetaEntry{"tokens", texts_of({"a"})}));
  EXPECT_FALSE(entry == (MetaEntry{"tokens", texts_of({"b"})}));
  EXPECT_FALSE(entry == (MetaEntry{"tokens", std::string("a")}));
}

}  // namespace
}  // namespace ballast
