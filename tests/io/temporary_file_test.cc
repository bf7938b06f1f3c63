// How temporaries are named and recognised.
#include "ballast/io/temporary_file.h"

#include <gtest/gtest.h>

#include <limits>

namespace ballast {
namespace {

TEST(TemporaryName, IsHiddenAndSaysWhoseItIs) {
  const std::string name = temporary_name("model.safetensors", 4321, 17);
  EXPECT_EQ(name, ".model.safetensors.4321-17.ballast-tmp");
  EXPECT_TRUE(is_temporary_of(name, "model.safetensors"));
}

TEST(TemporaryName, BelongsToOneDestinationOnly) {
  const std::string_view names[] = {"a", "a.b", "a.1-2", "b", ".a", "a.1-2.ballast-tmp", "1-2"};
  for (const auto owner : names) {
    for (const auto other : names) {
      EXPECT_EQ(is_temporary_of(temporary_name(owner, 1, 2), other), owner == other) << owner << " " << other;
    }
  }
}

TEST(TemporaryName, IsNotSeenInOtherFiles) {
  for (const std::string_view name :
       {"a", ".a", ".a.ballast-tmp", ".a..ballast-tmp", ".a.1.ballast-tmp", ".a.1-.ballast-tmp", ".a.-1.ballast-tmp",
        ".a.x-1.ballast-tmp", ".a.1-2-3.ballast-tmp", ".a.1-2.ballast-tmp~", "a.1-2.ballast-tmp", ""}) {
    EXPECT_FALSE(is_temporary_of(name, "a")) << name;
  }
}

TEST(TemporaryName, FitsEvenWhenTheDestinationsNameIsAsLongAsAllowed) {
  constexpr size_t kMaxName = 255;
  for (size_t length = 190; length <= kMaxName; ++length) {
    const std::string one = std::string(length - 1, 'n') + "1";
    const std::string two = std::string(length - 1, 'n') + "2";
    const std::string name =
        temporary_name(one, std::numeric_limits<int32_t>::max(), std::numeric_limits<uint64_t>::max());
    EXPECT_LE(name.size(), kMaxName);
    EXPECT_TRUE(is_temporary_of(name, one));
    EXPECT_FALSE(is_temporary_of(name, two));
  }
}

}  // namespace
}  // namespace ballast
