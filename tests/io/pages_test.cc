#include "ballast/io/pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace ballast {
namespace {

TEST(Pages, AreWholeAndZero) {
  const Pages pages(10000);
  ASSERT_FALSE(pages.empty());
  EXPECT_GE(pages.size(), 10000U);
  EXPECT_EQ(pages.size() % Pages::page_size(), 0U);
  for (size_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], std::byte{0});
}

TEST(Pages, ChangeTheirSize) {
  Pages pages(Pages::page_size() * 2);
  for (const size_t count : {5U, 1U, 300U, 2U}) {
    pages.resize(count * Pages::page_size());
    ASSERT_EQ(pages.size(), count * Pages::page_size());
    std::memset(pages.data(), 1, pages.size());
  }
  pages.resize(0);
  EXPECT_TRUE(pages.empty());
  pages.resize(100);
  EXPECT_EQ(pages.size(), Pages::page_size());
}

TEST(Pages, AreEmptyWhereThereIsNoMemory) {
  EXPECT_TRUE(Pages(SIZE_MAX / 4).empty());
  EXPECT_TRUE(Pages(SIZE_MAX).empty());
  Pages pages(100);
  pages.resize(SIZE_MAX / 4);
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pages.size(), 0U);
}

TEST(Pages, CanBeMoved) {
  Pages first(100);
  const std::byte* where = first.data();
  Pages second(std::move(first));
  EXPECT_EQ(second.data(), where);
  EXPECT_TRUE(first.empty());  // NOLINT: what is left is empty
}

}  // namespace
}  // namespace ballast
