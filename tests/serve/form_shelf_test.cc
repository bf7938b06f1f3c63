#include "ballast/serve/form_shelf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// Hostile forms are large ones: what is kept has a limit in bytes, too.
TEST(FormShelf, ForgetsTheOldestFormsWhereTheyNeedTooMuchMemory) {
  const auto model = TextModel::open(test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  const auto regex = [](int i) {
    return serve::FormAsk{serve::FormAsk::Kind::kRegex, fmt::format("[a-z]{{3,{}}}", i)};
  };
  serve::FormShelf roomy;
  size_t bytes = 0;
  for (int i = 10; i < 14; ++i) {
    const auto form = roomy.find(*model, regex(i));
    ASSERT_TRUE(form) << form.error().message;
    bytes += form->bytes() + regex(i).text.size();
  }
  EXPECT_EQ(roomy.size(), 4U);
  serve::FormShelf narrow(bytes - 1);
  for (int i = 10; i < 14; ++i) ASSERT_TRUE(narrow.find(*model, regex(i)));
  EXPECT_EQ(narrow.size(), 3U);
  serve::FormShelf tiny(1);
  for (int i = 10; i < 14; ++i) ASSERT_TRUE(tiny.find(*model, regex(i)));
  EXPECT_EQ(tiny.size(), 1U) << "the one that was asked for last stays";
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(roomy.find(*model, regex(i + 3)));
  EXPECT_EQ(roomy.size(), 32U);
}

TEST(FormShelf, CountsWhatAFormHasLearnt) {
  const auto model = TextModel::open(test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  serve::FormShelf shelf;
  const auto form = shelf.find(*model, {serve::FormAsk::Kind::kRegex, "[a-z]+"});
  ASSERT_TRUE(form) << form.error().message;
  const size_t before = form->bytes();
  std::vector<float> logits(model->vocab_size());
  const std::array<TokenId, 1> stop = {0};
  ASSERT_TRUE((*form)(0, stop)(logits, {}));
  EXPECT_GT(form->bytes(), before);
}

}  // namespace
}  // namespace ballast::testing
