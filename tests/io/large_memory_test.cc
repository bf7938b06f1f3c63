#include "ballast/io/large_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ballast {
namespace {

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
  EXPECT_EQ(memory[0], std::byte{0});
  EXPECT_EQ(memory[kSize - 1], std::byte{0});  // the first of its page
}

TEST(LargeMemory, TheSystemSaysHowMuchIsLeft) {
  const auto available = available_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, uint64_t{1} << 20);
}

}  // namespace
}  // namespace ballast
