#include "ballast/edit/tensor_stream.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "ballast/edit/name_pattern.h"
#include "ballast/edit/transpose.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// Gives bytes in small uneven pieces, as readers of compressed files do.
TensorProvider in_pieces(ByteVector bytes) {
  return [bytes = std::move(bytes)](ByteSink& sink) -> Status {
    for (size_t at = 0; at < bytes.size(); at += 7) {
      BALLAST_CHECK(sink.write(ByteSpan(bytes).subspan(at, std::min<size_t>(7, bytes.size() - at))));
    }
    return {};
  };
}

ByteVector drawn(const TensorProvider& provider, uint64_t size) {
  auto bytes = draw_all(provider, size);
  EXPECT_TRUE(bytes) << (bytes ? "" : bytes.error().message);
  return bytes ? *std::move(bytes) : ByteVector();
}

TEST(TensorStream, PutsRowsOfEachGroupInAnotherOrder) {
  const ByteVector rows = counting_bytes(2 * 3 * 5, 0);  // two groups of three rows of five bytes
  const ByteVector reordered = drawn(reordered_rows(in_pieces(rows), 5, {2, 0, 1}), rows.size());
  for (size_t group = 0; group < 2; ++group) {
    for (const auto& [to, from] : {std::pair{0, 2}, {1, 0}, {2, 1}}) {
      EXPECT_EQ(std::memcmp(&reordered[(group * 3 + to) * 5], &rows[(group * 3 + from) * 5], 5), 0) << group << to;
    }
  }
}

TEST(TensorStream, RowsThatFillNoGroupAreAnError) {
  const auto refused = draw_all(reordered_rows(in_pieces(counting_bytes(20)), 5, {2, 0, 1}), 20);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("5 bytes are left over"), std::string::npos) << refused.error().message;
}

TEST(TensorStream, TransposesEverySizeOfElement) {
  const auto gate = std::make_shared<MemoryGate>();
  for (const size_t width : {1, 2, 4, 8, 16}) {
    const uint64_t rows = 37;
    const uint64_t columns = 70;
    const ByteVector matrix = counting_bytes(rows * columns * width, 3);
    const ByteVector turned = drawn(transposed(in_pieces(matrix), rows, columns, width, gate), matrix.size());
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < columns; ++column) {
        ASSERT_EQ(std::memcmp(&turned[(column * rows + row) * width], &matrix[(row * columns + column) * width], width),
                  0);
      }
    }
  }
}

TEST(TensorStream, TransposesMatricesLargerThanItsBufferAndEmptyOnes) {
  const auto gate = std::make_shared<MemoryGate>();
  const uint64_t rows = 1100;
  const uint64_t columns = 600;
  const ByteVector matrix = counting_bytes(rows * columns * 4, 9);
  const TensorProvider there = transposed(in_pieces(matrix), rows, columns, 4, gate);
  EXPECT_EQ(drawn(transposed(there, columns, rows, 4, std::make_shared<MemoryGate>()), matrix.size()), matrix);
  EXPECT_EQ(drawn(transposed(in_pieces({}), 0, 5, 4, gate), 0), ByteVector());
}

TEST(TensorStream, KeepsAColumnRangeOfEveryRow) {
  const ByteVector rows = counting_bytes(40, 0);  // four rows of ten
  const ByteVector cut = drawn(row_ranges(in_pieces(rows), 10, 3, 6), 12);
  for (size_t row = 0; row < 4; ++row) {
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cut[row * 3 + i], rows[row * 10 + 3 + i]);
  }
}

TEST(TensorStream, ChangesValuesThatAreSplitBetweenWrites) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0F);
  const ByteSpan bytes = std::as_bytes(std::span(values));
  const TensorProvider changed = changed_values(in_pieces({bytes.begin(), bytes.end()}), [] {
    return Result<ChangeValue>([](float value, uint64_t at) { return value + static_cast<float>(at); });
  });
  const ByteVector out = drawn(changed, bytes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<float>(load_le<uint32_t>(&out[i * 4])), 2 * values[i]);
  }
}

TEST(TensorStream, RefusesATensorThatGivesMoreOrLessThanItSays) {
  EXPECT_FALSE(draw_all(in_pieces(counting_bytes(9)), 8));
  EXPECT_FALSE(draw_all(in_pieces(counting_bytes(7)), 8));
}

TEST(NamePattern, MatchesNumbersWithoutLeadingZeros) {
  EXPECT_EQ(match_name("h.{}.ln_1.weight", "h.12.ln_1.weight")->values[0], 12U);
  EXPECT_EQ(match_name("layer{}.{}.conv1", "layer2.3.conv1")->values[1], 3U);
  EXPECT_FALSE(match_name("h.{}.x", "h.012.x"));
  EXPECT_FALSE(match_name("h.{}.x", "h..x"));
  EXPECT_FALSE(match_name("h.{}.x", "h.1.xy"));
  EXPECT_FALSE(match_name("h.{}.x", "h.1."));
  EXPECT_FALSE(match_name("h.{}.x", "h.1234567890.x"));
}

TEST(NamePattern, CountsFromOneWhereTheOtherSideCountsFromZero) {
  const auto numbers = match_name("features.{+1}.conv.2", "features.5.conv.2");
  ASSERT_TRUE(numbers);
  EXPECT_EQ(fill_name("blocks.{}.project", *numbers), "blocks.4.project");
  EXPECT_EQ(fill_name("features.{+1}.conv.3", *numbers), "features.5.conv.3");
  EXPECT_FALSE(match_name("features.{+1}.conv.2", "features.0.conv.2"));
}

}  // namespace
}  // namespace ballast::testing
