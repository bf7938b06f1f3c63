#include "ballast/tensor/singular_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

namespace ballast::testing {
namespace {

struct Matrix {
  size_t rows;
  size_t columns;
  std::vector<double> values;

  double& at(size_t i, size_t j) { return values[i * columns + j]; }
  double at(size_t i, size_t j) const { return values[i * columns + j]; }
};

Matrix zeros(size_t rows, size_t columns) { return {rows, columns, std::vector<double>(rows * columns)}; }

Matrix random_matrix(size_t rows, size_t columns) {
  std::mt19937 random(7);
  std::normal_distribution<double> distribution;
  Matrix matrix = zeros(rows, columns);
  for (double& value : matrix.values) value = distribution(random);
  return matrix;
}

Matrix transposed(const Matrix& matrix) {
  Matrix turned = zeros(matrix.columns, matrix.rows);
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) turned.at(j, i) = matrix.at(i, j);
  }
  return turned;
}

std::vector<double> singular_values(const Matrix& matrix) {
  auto work = SingularValues::begin(matrix.values, matrix.rows, matrix.columns);
  EXPECT_TRUE(work.has_value());
  while (work->done() < work->total()) work->step();
  return work->finish();
}

// As near as rounding allows, which is a matter of the largest value.
void expect_values(const Matrix& matrix, const std::vector<double>& expected) {
  const std::vector<double> found = singular_values(matrix);
  ASSERT_EQ(found.size(), expected.size());
  const double roundings = 8 * std::numeric_limits<double>::epsilon() * (expected.empty() ? 0 : expected.front());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], roundings) << "value " << i;
}

TEST(SingularValuesTest, OfDiagonalMatricesAreTheirEntries) {
  expect_values({3, 3, {1, 0, 0, 0, -3, 0, 0, 0, 2}}, {3, 2, 1});
  expect_values({1, 1, {-5}}, {5});
  expect_values({1, 3, {2, 3, 6}}, {7});
}

TEST(SingularValuesTest, AreThoseOfKnownMatrices) {
  expect_values({2, 2, {1, 2, 3, 4}}, {5.4649857042190426504, 0.36596619062625782276});
  Matrix hilbert = zeros(5, 5);
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 5; ++j) hilbert.at(i, j) = 1 / static_cast<double>(i + j + 1);
  }
  expect_values(hilbert, {1.5670506910982307, 0.20853421861101333, 0.011407491623419806, 3.0589804015119172e-4,
                          3.2879287721718629e-6});
}

// Ones on and right of the diagonal: 2 cos(k pi / (2n + 1)).
TEST(SingularValuesTest, OfABidiagonalMatrixOfOnesAreCosines) {
  constexpr size_t kSize = 50;
  Matrix matrix = zeros(kSize, kSize);
  std::vector<double> expected;
  for (size_t i = 0; i < kSize; ++i) {
    matrix.at(i, i) = 1;
    if (i + 1 < kSize) matrix.at(i, i + 1) = 1;
    expected.push_back(2 * std::cos(std::numbers::pi * static_cast<double>(i + 1) / (2 * kSize + 1)));
  }
  expect_values(matrix, expected);
}

TEST(SingularValuesTest, AProductOfTwoVectorsHasOne) {
  Matrix matrix = zeros(9, 6);
  double left = 0;
  double right = 0;
  for (size_t i = 0; i < 9; ++i) {
    for (size_t j = 0; j < 6; ++j) matrix.at(i, j) = static_cast<double>((i + 1) * (j + 2));
    left += static_cast<double>((i + 1) * (i + 1));
  }
  for (size_t j = 0; j < 6; ++j) right += static_cast<double>((j + 2) * (j + 2));
  expect_values(matrix, {std::sqrt(left * right), 0, 0, 0, 0, 0});
}

TEST(SingularValuesTest, AreTheSameOfTheTransposedMatrix) {
  for (const auto& [rows, columns] : {std::pair{40, 25}, {25, 40}, {33, 33}, {64, 1}}) {
    const Matrix matrix = random_matrix(static_cast<size_t>(rows), static_cast<size_t>(columns));
    expect_values(transposed(matrix), singular_values(matrix));
  }
}

// The sums of their second and fourth powers are traces of products of the matrix with itself.
TEST(SingularValuesTest, HaveTheMatrixsTraces) {
  const Matrix matrix = random_matrix(60, 37);
  double second = 0;
  double fourth = 0;
  for (size_t a = 0; a < matrix.columns; ++a) {
    for (size_t b = 0; b < matrix.columns; ++b) {
      double product = 0;
      for (size_t i = 0; i < matrix.rows; ++i) product += matrix.at(i, a) * matrix.at(i, b);
      if (a == b) second += product;
      fourth += product * product;
    }
  }
  for (const double value : singular_values(matrix)) {
    second -= value * value;
    fourth -= value * value * value * value;
  }
  EXPECT_NEAR(second, 0, 1e-11);
  EXPECT_NEAR(fourth, 0, 1e-8);
}

TEST(SingularValuesTest, NeitherOverflowNorVanish) {
  for (const double size : {1e300, 1e-300, 5e-324}) {
    const std::vector<double> found = singular_values({2, 2, {size, 0, 0, -size}});
    ASSERT_EQ(found.size(), 2u);
    EXPECT_DOUBLE_EQ(found[0], size);
    EXPECT_DOUBLE_EQ(found[1], size);
  }
}

TEST(SingularValuesTest, OfNothingAreNone) {
  EXPECT_EQ(singular_values(zeros(3, 4)), std::vector<double>(3));
  EXPECT_TRUE(singular_values(zeros(0, 4)).empty());
  EXPECT_TRUE(singular_values(zeros(4, 0)).empty());
}

TEST(SingularValuesTest, RefusesWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto refused = SingularValues::begin({1, bad}, 1, 2);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ballast::testing
