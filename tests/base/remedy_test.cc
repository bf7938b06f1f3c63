#include "ballast/base/remedy.h"

#include <gtest/gtest.h>

#include <set>

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

TEST(Remedies, HaveANameOfTheirOwnAndWords) {
  std::set<std::string_view> names;
  for (unsigned i = 0; i <= static_cast<unsigned>(kLastRemedy); ++i) {
    const auto remedy = static_cast<Remedy>(i);
    EXPECT_TRUE(names.insert(remedy_name(remedy)).second) << remedy_name(remedy);
    EXPECT_FALSE(remedy_text(remedy).empty());
  }
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(remedy_name(Remedy::kAllowOverwrite), "allow_overwrite");
}

}  // namespace
}  // namespace ballast
