#include "ballast/base/human_size.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(HumanSize, UsesTheUnitThatSuitsAndThreeDigits) {
  const std::pair<uint64_t, std::string_view> cases[] = {
      {0, "0 B"},
      {20, "20 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1025, "1.00 KiB"},
      {8866, "8.66 KiB"},
      {10239, "10.0 KiB"},
      {65536, "64 KiB"},
      {102348, "99.9 KiB"},
      {102399, "100 KiB"},
      {1048575, "1.00 MiB"},
      {12446598, "11.9 MiB"},
      {uint64_t{2} << 30, "2 GiB"},
      {(uint64_t{2} << 30) + 1, "2.00 GiB"},
      {UINT64_MAX, "16.0 EiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(human_size(bytes), text) << bytes;
}

}  // namespace
}  // namespace ballast
