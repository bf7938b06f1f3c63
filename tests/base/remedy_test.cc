#include "ballast/base/remedy.h"

#include <gtest/gtest.h>

#include "ballast/base/result.h"

namespace ballast {
namespace {

TEST(Remedies, AreASet) {
  Remedies remedies;
  EXPECT_TRUE(remedies.empty());
  remedies.add(Remedy::kAllowHalf);
  remedies.add(Remedy::kDequantize);
  remedies.add(Remedy::kDequantize);
  EXPECT_FALSE(remedies.empty());
  EXPECT_TRUE(remedies.has(Remedy::kAllowHalf));
  EXPECT_TRUE(remedies.has(Remedy::kDequantize));
  EXPECT_FALSE(remedies.has(Remedy::kAllowOverwrite));
  EXPECT_FALSE(remedies == Remedies(Remedy::kAllowHalf));
  EXPECT_TRUE(Remedies(kLastRemedy).has(kLastRemedy));
}

TEST(Remedies, StayWithAnErrorThatIsSeenFromFurtherOut) {
  const Error error = make_error(ErrorCode::kExists, "it exists", Remedy::kAllowOverwrite).with_context("out.npz");
  EXPECT_EQ(error.message, "out.npz: it exists");
  EXPECT_EQ(error.remedies, Remedy::kAllowOverwrite);
  EXPECT_TRUE(make_error(ErrorCode::kExists, "it exists").remedies.empty());
}

}  // namespace
}  // namespace ballast
