#include "ballast/io/large_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using ::ballast::testing::TempFolder;
using ::testing::Each;
using ::testing::Truly;

TEST(LargeMemory, IsAlignedAndUsableToItsLastByte) {
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{4} << 20, (size_t{9} << 20) + 7}) {
    const LargeMemory memory = make_large_memory(size);
    ASSERT_NE(memory, nullptr) << size;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0U) << size;
    memory[0] = std::byte{1};
    memory[size - 1] = std::byte{2};
    EXPECT_EQ(memory[size - 1], std::byte{2});
  }
}

TEST(LargeMemory, IsNullWhereThereIsNone) { EXPECT_EQ(make_large_memory(std::numeric_limits<size_t>::max()), nullptr); }

TEST(LargeMemory, IsThereWhenItWasTouched) {
  constexpr size_t kSize = (size_t{4} << 20) + 1;
  const LargeMemory memory = make_large_memory(kSize);
  ASSERT_NE(memory, nullptr);
  touch_pages({memory.get(), kSize});
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_there((kSize + page - 1) / page);
  ASSERT_EQ(mincore(memory.get(), kSize, is_there.data()), 0);
  EXPECT_THAT(is_there, Each(Truly([](unsigned char flags) { return (flags & 1) != 0; })));
}

TEST(LargeMemory, TheSystemSaysHowMuchIsLeft) {
  const auto available = available_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, uint64_t{1} << 20);
}

TEST(LargeMemory, TheLimitOfAGroupOfProcessesCounts) {
  const TempFolder group;
  EXPECT_EQ(memory_left_to_group(group.path()), std::nullopt);
  group.write("memory.max", "max\n");
  group.write("memory.current", "3000\n");
  EXPECT_EQ(memory_left_to_group(group.path()), std::nullopt);
  group.write("memory.max", "10000\n");
  EXPECT_EQ(memory_left_to_group(group.path()), 7000U);
  group.write("memory.max", "2000\n");
  EXPECT_EQ(memory_left_to_group(group.path()), 0U);
}

}  // namespace
}  // namespace ballast
