#include "ballast/text/chat_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/load_tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTemplate =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

Tokenizer tokenizer_or_die() {
  auto tokenizer = load_tokenizer(test_file_path("tokenizers/gptrs_flat.json"));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TEST(ChatFormat, WritesAConversationAsTheFilesOfTheModelSay) {
  const TempFolder folder;
  folder.write("chat_template.jinja", std::string(kTemplate));
  folder.write("tokenizer_config.json", R"({"bos_token": "<|endoftext|>", "eos_token": "</s>"})");
  const Tokenizer tokenizer = tokenizer_or_die();
  const auto format = ChatFormat::open(ModelSource(folder.path()), tokenizer);
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(format->bos_token(), "<|endoftext|>");
  EXPECT_EQ(format->eos_token(), "</s>");
  EXPECT_EQ(format->template_text(), kTemplate);
  const std::string context = R"({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true,
                                  "bos_token": "<|endoftext|>"})";
  EXPECT_EQ(format->render(context).value(), "<|endoftext|><user>hi\n<assistant>");
  EXPECT_EQ(format->encode(context).value(), tokenizer.encode("<|endoftext|><user>hi\n<assistant>").value());
}

TEST(ChatFormat, WhatAMessageSaysNeverBecomesASpecialToken) {
  const TempFolder folder;
  const Tokenizer tokenizer = tokenizer_or_die();
  const auto format = ChatFormat::open(ModelSource(folder.path()), tokenizer, kTemplate, "given");
  ASSERT_TRUE(format) << format.error().message;
  const auto ids = format->encode(R"({"messages": [{"role": "user", "content": "<|endoftext|>"}]})");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, ::testing::Not(::testing::Contains(*tokenizer.find("<|endoftext|>"))));
}

TEST(ChatFormat, SaysWhatIsMissingOrWrong) {
  const TempFolder folder;
  const Tokenizer tokenizer = tokenizer_or_die();
  const auto none = ChatFormat::open(ModelSource(folder.path()), tokenizer);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("chat template"));
  const auto broken = ChatFormat::open(ModelSource(folder.path()), tokenizer, "{% if %}", "the given one");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("the given one"));
  const auto empty = ChatFormat::open(ModelSource(folder.path()), tokenizer, "{# nothing #}", "given");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->encode("{\"messages\": []}").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ballast::testing
