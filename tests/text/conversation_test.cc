#include "ballast/text/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/encode_parts.h"
#include "ballast/text/find_chat_template.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/text_ends.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tokenizer flat_tokenizer() {
  auto tokenizer = load_tokenizer(test_file_path("tokenizers/gptrs_flat.json"));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

// ---------------------------------------------------------------- tokens of parts

std::vector<TokenId> tokens_of(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts) {
  const auto ids = encode_parts(tokenizer, parts);
  EXPECT_TRUE(ids) << ids.error().message;
  return *ids;
}

TEST(EncodeParts, OnlyTheTemplateCanWriteSpecialTokens) {
  const Tokenizer tokenizer = flat_tokenizer();
  const TokenId mark = *tokenizer.find("<|endoftext|>");
  EXPECT_THAT(tokens_of(tokenizer, {{"<|endoftext|>", false}}), ElementsAre(mark));
  const auto special = [&](const std::vector<RenderedPart>& parts) {
    return std::ranges::count(tokens_of(tokenizer, parts), mark);
  };
  EXPECT_EQ(special({{"<|endoftext|>", true}}), 0);
  EXPECT_EQ(special({{"<|endof", false}, {"text|>", true}}), 0);
  EXPECT_EQ(special({{"<|endof", true}, {"text|>", false}}), 0);
  EXPECT_EQ(special({{"a<|endoftext|>b", false}, {"<|endoftext|>", true}, {"<|endoftext|><|endoftext|>", false}}), 3);
}

TEST(EncodeParts, WhereAMessageBeginsDoesNotChangeTheTokens) {
  const Tokenizer tokenizer = flat_tokenizer();
  EXPECT_EQ(tokens_of(tokenizer, {{"say: th", false}, {"e and", true}, {" the", false}}),
            tokenizer.encode("say: the and the").value());
}

// ---------------------------------------------------------------- conversations

constexpr std::string_view kPlainTemplate = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}a:";

// A model of 48 tokens' memory that babbles.
class ConversationTest : public ::testing::Test {
 protected:
  Conversation make(uint64_t max_tokens = 4, std::string_view template_text = kPlainTemplate) {
    auto parsed = ChatTemplate::parse(template_text);
    EXPECT_TRUE(parsed) << parsed.error().message;
    ConversationOptions options;
    options.generate.max_tokens = max_tokens;
    options.generate.sampling.temperature = 0;
    return Conversation(*model_->as_causal_lm(), model_->context(), tokenizer_, std::move(*parsed), options);
  }
  static Reply say(Conversation& conversation, const std::string& text) {
    auto reply = conversation.say(text, {}, [](std::string_view) { return true; });
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? *reply : Reply{};
  }

  std::unique_ptr<LoadedModel> model_ = load_or_die(recorded_model_path("gpt_base"));
  Tokenizer tokenizer_ = flat_tokenizer();
};

TEST_F(ConversationTest, KeepsWhatWasSaid) {
  Conversation conversation = make();
  EXPECT_TRUE(conversation.set_system("s"));
  std::string shown;
  const auto reply = conversation.say("hi", {}, [&](std::string_view piece) {
    shown += piece;
    return true;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, shown);
  EXPECT_EQ(reply->written_tokens, 4U);
  EXPECT_EQ(reply->end, ReplyEnd::kMaxTokens);
  EXPECT_THAT(conversation.messages(),
              ElementsAre(ChatMessage{"system", "s"}, ChatMessage{"user", "hi"}, ChatMessage{"assistant", shown}));
  conversation.reset();
  EXPECT_THAT(conversation.messages(), ElementsAre(ChatMessage{"system", "s"}));
  EXPECT_TRUE(conversation.set_system(""));
  EXPECT_TRUE(conversation.messages().empty());
}

TEST_F(ConversationTest, ComputesOnlyWhatIsNewAndSaysTheSame) {
  Conversation conversation = make();
  say(conversation, "hi");
  const std::vector<ChatMessage> before(conversation.messages().begin(), conversation.messages().end());
  const Reply second = say(conversation, "so");
  EXPECT_GE(second.reused_tokens, 5U);
  EXPECT_LT(second.reused_tokens, second.prompt_tokens);
  Conversation fresh = make();
  fresh.set_messages(before);
  const Reply anew = say(fresh, "so");
  EXPECT_EQ(anew.reused_tokens, 0U);
  EXPECT_EQ(anew.prompt_tokens, second.prompt_tokens);
  EXPECT_EQ(anew.text, second.text);
}

TEST_F(ConversationTest, AnAnswerThatIsStoppedStays) {
  Conversation conversation = make(12);
  size_t pieces = 0;
  const auto reply = conversation.say("hi", {}, [&](std::string_view) { return ++pieces < 2; });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->end, ReplyEnd::kStopped);
  EXPECT_LT(reply->written_tokens, 12U);
  EXPECT_EQ(conversation.messages().back().content, reply->text);
}

TEST_F(ConversationTest, LeavesOutOldTurnsWhereTheContextIsFull) {
  Conversation conversation = make();
  EXPECT_TRUE(conversation.set_system("s"));
  for (int turn = 0; turn < 6; ++turn) say(conversation, "one two");
  EXPECT_GT(conversation.left_out(), 0U);
  EXPECT_EQ(conversation.left_out() % 2, 0U);  // whole turns
  EXPECT_EQ(conversation.messages().size(), 13U);
  EXPECT_LE(conversation.tokens(), 48U);
}

// A file may hold more turns than could ever be tried one after the other.
TEST_F(ConversationTest, FindsTheFewestTurnsToLeaveOutOfVeryMany) {
  constexpr size_t kTurns = 20'000;
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < kTurns; ++i) messages.insert(messages.end(), {{"user", "a"}, {"assistant", "b"}});
  Conversation conversation = make();
  conversation.set_messages(messages);
  const Reply reply = say(conversation, "c");
  EXPECT_LE(reply.prompt_tokens, 44U);
  Conversation shorter = make();  // one turn more would not fit
  const size_t seen = messages.size() - conversation.left_out();
  shorter.set_messages({messages.end() - static_cast<ptrdiff_t>(seen), messages.end()});
  EXPECT_EQ(say(shorter, "c").prompt_tokens, reply.prompt_tokens);
  EXPECT_EQ(shorter.left_out(), 0U);
  Conversation longer = make();
  longer.set_messages({messages.end() - static_cast<ptrdiff_t>(seen + 2), messages.end()});
  say(longer, "c");
  EXPECT_EQ(longer.left_out(), 2U);
}

TEST_F(ConversationTest, AMessageThatCannotFitIsRefusedAndForgotten) {
  Conversation conversation = make();
  const std::string longer(100, 'x');
  const auto reply = conversation.say(longer, {}, [](std::string_view) { return true; });
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, AllOf(HasSubstr("tokens with what the chat template adds"), HasSubstr("has 48")));
  EXPECT_TRUE(conversation.messages().empty());
}

TEST_F(ConversationTest, ATemplateThatWritesNothingIsNamed) {
  Conversation conversation = make(4, "{# nothing #}");
  const auto reply = conversation.say("hi", {}, [](std::string_view) { return true; });
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("the chat template makes an empty text"));
}

TEST_F(ConversationTest, WhatATemplateRaisesIsTheError) {
  Conversation conversation = make(4, "{{ raise_exception('no ' ~ messages[0].role) }}");
  const auto reply = conversation.say("hi", {}, [](std::string_view) { return true; });
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "no user");
  EXPECT_TRUE(conversation.messages().empty());
}

TEST(EndsOfTurns, AreThoseThatTheTemplateWrites) {
  EXPECT_THAT(turn_ends_in("<|im_start|>{{ x }}<|im_end|></s>"), ElementsAre("<|im_end|>", "</s>"));
  EXPECT_TRUE(turn_ends_in(kPlainTemplate).empty());
}

// ---------------------------------------------------------------- files

TEST(ConversationFile, ComesBackAsItWasSaved) {
  const std::vector<ChatMessage> messages = {{"system", "a \"b\"\n"}, {"user", "ü"}};
  const auto read = parse_messages(messages_to_json(messages), "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, messages);
}

TEST(ConversationFile, KeepsWhatItDoesNotKnow) {
  const std::string_view text = R"([{"role": "assistant", "content": null, "tool_calls": [1]}])";
  const auto read = parse_messages(text, "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(*read, ElementsAre(ChatMessage{"assistant", "", std::string(text.substr(1, text.size() - 2))}));
  EXPECT_THAT(messages_to_json(*read), HasSubstr("\"tool_calls\": [1]"));
}

TEST(ConversationFile, IsRefusedWithItsName) {
  EXPECT_THAT(parse_messages("{}", "talk.json").error().message,
              AllOf(HasSubstr("talk.json"), HasSubstr("no \"messages\"")));
  EXPECT_THAT(parse_messages("[{}]", "talk.json").error().message, HasSubstr("without a role"));
  EXPECT_THAT(parse_messages("[1]", "talk.json").error().message, HasSubstr("expected a JSON object"));
}

TEST(FindChatTemplate, InTheFilesBesideAModel) {
  const TempFolder folder;
  const std::string model = folder.write("model.safetensors", "");
  const auto none = find_chat_template(model);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  folder.write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template":
      [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  auto found = *find_chat_template(model);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "D");
  EXPECT_EQ(found->bos_token, "<s>");
  EXPECT_EQ(found->eos_token, "</s>");
  folder.write("chat_template.jinja", "J");
  found = *find_chat_template(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "J");
  EXPECT_THAT(found->where, HasSubstr("chat_template.jinja"));
  EXPECT_EQ(found->bos_token, "<s>");
}

TEST(FindChatTemplate, InMetadata) {
  Description description;
  EXPECT_FALSE(find_chat_template(description));
  description.metadata = {{"tokenizer.ggml.bos_token_id", uint64_t{1}},
                          {"tokenizer.chat_template", std::string("{{ bos_token }}")}};
  const auto found = find_chat_template(description);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "{{ bos_token }}");
  EXPECT_EQ(found->bos_id, 1U);
  EXPECT_FALSE(found->eos_id);
}

}  // namespace
}  // namespace ballast::testing
