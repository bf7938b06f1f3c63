// Every entry point gives an error where memory runs out, whatever it was doing, and can be used again.
#include "tests/support/out_of_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/runtime/embedder.h"
#include "ballast/runtime/image_model.h"
#include "ballast/runtime/text_model.h"
#include "tests/support/recorded_bert.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

std::string tiny_llama() { return test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"); }

TextModelOptions with_template() {
  TextModelOptions options{.load = {.threads = 1}};
  options.chat_template = GivenChatTemplate{"{% for m in messages %}{{ m.content }} {% endfor %}", "test"};
  return options;
}

Status status_of(const auto& result) { return result ? Status() : Status(result.error()); }

TEST(OutOfMemory, WhileATextModelIsOpened) {
  const std::string path = tiny_llama();
  expect_no_escape([&] { return status_of(TextModel::open(path, {.load = {.threads = 1}})); }, 200);
}

TEST(OutOfMemory, WhileATextIsEncodedAndDecoded) {
  const auto model = TextModel::open(tiny_llama(), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  expect_no_escape([&]() -> Status {
    BALLAST_TRY(const std::vector<TokenId> ids, model->encode("1 2 three"));
    BALLAST_TRY([[maybe_unused]] const std::string text, model->decode(ids));
    BALLAST_TRY(const Tokenizer* tokenizer, model->tokenizer());
    BALLAST_TRY([[maybe_unused]] const Encoding pair, tokenizer->encode_pair("1", "2"));
    return {};
  });
}

TEST(OutOfMemory, EndsAGeneratorsTextAndTheNextIsWhole) {
  const auto model = TextModel::open(tiny_llama(), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  GenerateOptions options = model->generate_options();
  options.max_tokens = 4;
  options.stop_tokens.clear();
  options.sampling.seed = 5;
  std::vector<TokenId> expected;
  for_each_failing_call(
      [&](FailingCalls& calls) {
        auto generator = calls.insist([&] { return model->start("1 2", options); });
        ASSERT_TRUE(generator);
        bool failed = false;
        while (!failed && generator->stop_reason() == StopReason::kNone) {
          failed = !calls([&] { return generator->next(); });
        }
        if (expected.empty()) expected.assign(generator->tokens().begin(), generator->tokens().end());
        ASSERT_TRUE(std::ranges::equal(generator->tokens(), std::span(expected).first(generator->tokens().size())));
        if (!failed) return;
        ASSERT_TRUE(generator->restart(*model->encode("1 2")));
        while (*generator->next()) {
        }
        ASSERT_TRUE(std::ranges::equal(generator->tokens(), expected));
      },
      400);
  expect_no_escape([&]() -> Status {
    BALLAST_TRY(Generator generator, model->start("1 2", options));
    BALLAST_TRY([[maybe_unused]] const auto token, generator.next());
    return {};
  });
}

TEST(OutOfMemory, WhileAnEngineOfAModelWritesText) {
  const auto model = TextModel::open(tiny_llama(), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  GenerateOptions options = model->generate_options();
  options.max_tokens = 2;
  expect_no_escape([&]() -> Status {
    BALLAST_TRY(const auto engine, model->start_engine());
    BALLAST_TRY(Request request, model->make_request("1 2", options));
    BALLAST_CHECK(engine->submit(std::move(request)));
    TextStream stream = model->make_stream();
    while (!engine->is_idle()) {
      BALLAST_TRY(const auto events, engine->step());
      for (const EngineEvent& event : events) {
        if (event.error) return *event.error;
        if (event.kind == EngineEvent::Kind::kToken) BALLAST_CHECK(stream.next(event.token.id));
      }
    }
    return {};
  });
}

TEST(OutOfMemory, LeavesAConversationAsItWas) {
  const auto model = TextModel::open(tiny_llama(), with_template());
  ASSERT_TRUE(model) << model.error().message;
  expect_no_escape([&]() -> Status {
    ConversationOptions chat = {};
    chat.generate.max_tokens = 1;
    BALLAST_TRY(Conversation conversation, model->start_chat(std::move(chat)));
    const Status set = conversation.set_system("s");
    if (conversation.messages().size() != (set ? 1U : 0U)) return make_error(ErrorCode::kCorrupt, "messages");
    BALLAST_CHECK(set);
    const auto reply = conversation.say("1", {}, [](std::string_view) { return true; });
    if (conversation.messages().size() != (reply ? 3U : 1U)) return make_error(ErrorCode::kCorrupt, "messages");
    return status_of(reply);
  });
}

TEST(OutOfMemory, WhileMessagesAndTemplatesAreRead) {
  expect_no_escape([]() -> Status {
    BALLAST_CHECK(status_of(parse_messages(R"({"messages": [{"role": "user", "content": "hello", "more": 1}]})", "f")));
    BALLAST_TRY(const ChatTemplate chat,
                ChatTemplate::parse("{% for m in messages %}{{ m.content | trim }}{% endfor %}"));
    const std::string_view context = R"({"messages": [{"role": "user", "content": " a longer text than that "}]})";
    BALLAST_CHECK(status_of(chat.render(context)));
    return status_of(chat.render_parts(context));
  });
}

TEST(OutOfMemory, WhileTextsAreEmbedded) {
  const TempFolder folder;
  copy_bert(folder, {bert_tokenizer()});
  const std::string path = folder.path();
  expect_no_escape([&] { return status_of(Embedder::open(path, {.load = {.threads = 1}})); }, 100);
  const auto model = Embedder::open(path, {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<std::string> texts = {"ship", "boat and stones"};
  expect_no_escape([&] { return status_of(model->embed(texts)); });
}

TEST(OutOfMemory, WhilePicturesAreClassified) {
  const TempFolder folder;
  const std::string path = write_rule_checkpoint(folder, "mobilenet_v2", 1);
  expect_no_escape([&] { return status_of(ImageModel::open(path, {.load = {.threads = 1}, .size = 32})); }, 50);
  const auto model = ImageModel::open(path, {.load = {.threads = 1}, .size = 32});
  ASSERT_TRUE(model) << model.error().message;
  const Picture picture{4, 4, std::vector<uint8_t>(4 * 4 * 3, 128)};
  expect_no_escape([&] { return status_of(model->classify(picture, 3)); }, 50);
}

}  // namespace
}  // namespace ballast::testing
