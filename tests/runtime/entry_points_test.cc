#include <gmock/gmock.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <thread>

#include "ballast/archive/model_source.h"
#include "ballast/device/host_values.h"
#include "ballast/runtime/embedder.h"
#include "ballast/runtime/image_model.h"
#include "ballast/runtime/text_model.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

std::string tiny_gguf() { return test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"); }

// Counts how often the system opens a file.
class OpenCounter {
 public:
  explicit OpenCounter(const std::string& path) : fd_(::inotify_init1(IN_NONBLOCK)) {
    EXPECT_GE(::inotify_add_watch(fd_, path.c_str(), IN_OPEN | IN_ACCESS | IN_CLOSE), 0);
  }
  ~OpenCounter() { ::close(fd_); }
  // Equal events in a row come as one; what happens between two opens keeps them apart.
  size_t count() const {
    alignas(inotify_event) char buffer[16 * sizeof(inotify_event)];
    size_t opens = 0;
    for (ssize_t got; (got = ::read(fd_, buffer, sizeof buffer)) > 0;) {
      for (ssize_t at = 0; at < got; at += static_cast<ssize_t>(sizeof(inotify_event))) {
        opens += (reinterpret_cast<const inotify_event*>(buffer + at)->mask & IN_OPEN) != 0 ? 1 : 0;
      }
    }
    return opens;
  }

 private:
  int fd_;
};

std::shared_ptr<const ByteSource> file_bytes(const std::string& path) {
  auto source = open_file(path, FileAccess::kPositional);
  return *source;
}

std::vector<TokenId> written_by(const Result<TextModel>& model, const std::string& prompt = "1 2 3") {
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  GenerateOptions options = model->generate_options();
  options.max_tokens = 8;
  options.sampling.temperature = 0;
  auto generator = model->start(prompt, options);
  EXPECT_TRUE(generator) << generator.error().message;
  while (generator && *generator->next()) {
  }
  return generator ? std::vector(generator->tokens().begin(), generator->tokens().end()) : std::vector<TokenId>();
}

TEST(TextModel, OpensAGgufFileOnce) {
  const OpenCounter opens(tiny_gguf());
  const auto model = TextModel::open(tiny_gguf());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->tokenizer());
  EXPECT_EQ(opens.count(), 1U);
}

TEST(TextModel, OpensFromAPathAnArchiveAndNamedSourcesAlike) {
  const auto expected = written_by(TextModel::open(tiny_gguf()));
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(written_by(TextModel::open(ModelSource(*open_archive(tiny_gguf())))), expected);
  EXPECT_EQ(written_by(TextModel::open(ModelSource(NamedSources{{"any", file_bytes(tiny_gguf())}}))), expected);
  TextModelOptions budget;
  budget.load.param_budget_fraction = 0.5;
  EXPECT_EQ(written_by(TextModel::open(tiny_gguf(), budget)), expected);
}

TEST(TextModel, OpensAFolderOfNamedSources) {
  const std::string folder = test_file_path("hf/smollm2");
  NamedSources files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = file_bytes(entry.path().string());
  }
  const auto from_path = TextModel::open(folder), from_memory = TextModel::open(ModelSource(files));
  ASSERT_TRUE(from_path) << from_path.error().message;
  ASSERT_TRUE(from_memory) << from_memory.error().message;
  EXPECT_EQ(from_memory->generate_options().stop_tokens, from_path->generate_options().stop_tokens);
  EXPECT_EQ(from_memory->chat_options().stop_texts, from_path->chat_options().stop_texts);
  EXPECT_EQ(bool{from_memory->tokenizer()}, bool{from_path->tokenizer()});
  const std::vector<TokenId> prompt = {1, 2, 3};
  const auto logits = [&](const TextModel& model) {
    const auto generator = model.start(prompt, model.generate_options());
    EXPECT_TRUE(generator) << generator.error().message;
    return std::vector<float>(*floats_of(generator->logits()));
  };
  EXPECT_EQ(logits(*from_memory), logits(*from_path));
}

TEST(TextModel, AFileThatIsNotAmongTheSourcesIsNamed) {
  const auto model = TextModel::open(ModelSource(NamedSources{}, "bundle"));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(model.error().message, HasSubstr("bundle"));
}

TEST(TextModel, WithoutATemplateSaysThatItIsNotForConversations) {
  const auto model = TextModel::open(default_model_file());
  ASSERT_TRUE(model) << model.error().message;
  const auto chat = model->start_chat();
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(chat.error().message, HasSubstr("no chat template"));
}

TEST(TextModel, TextsThatSeveralThreadsWriteAtOnceAreThoseOfEachAlone) {
  const auto model = TextModel::open(tiny_gguf(), {.load = {.threads = 1}});
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<std::string> prompts = {"1 2 3", "4", "5 6 7 8", "9 9"};
  std::vector<std::vector<TokenId>> alone, together(prompts.size());
  for (const std::string& prompt : prompts) alone.push_back(written_by(model, prompt));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < prompts.size(); ++i) {
    threads.emplace_back([&, i] { together[i] = written_by(model, prompts[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

// ---------------------------------------------------------------- many texts at once

std::vector<TokenId> text_with(const TextModel& model, const std::string& prompt, const GenerateOptions& options) {
  auto generator = model.start(prompt, options);
  EXPECT_TRUE(generator) << generator.error().message;
  while (generator && *generator->next()) {
  }
  return generator ? std::vector(generator->tokens().begin(), generator->tokens().end()) : std::vector<TokenId>();
}

TEST(TextModel, AnEngineWritesTheTextsThatGeneratorsWrite) {
  const auto model = TextModel::open(tiny_gguf());
  ASSERT_TRUE(model) << model.error().message;
  const auto engine = model->start_engine();
  ASSERT_TRUE(engine) << engine.error().message;
  const std::vector<std::string> prompts = {"1 2 3", "4", "", "5 6 7 8 9 10 11"};
  std::vector<std::vector<TokenId>> alone;
  std::map<RequestId, std::vector<TokenId>> together;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions options = model->generate_options();
    options.max_tokens = 6 + i;
    options.sampling.seed = i;
    options.sampling.temperature = 1;
    alone.push_back(text_with(*model, prompts[i], options));
    const auto request = model->make_request(prompts[i], options);
    ASSERT_TRUE(request) << request.error().message;
    const auto id = (*engine)->submit(*request);
    ASSERT_TRUE(id) << id.error().message;
    together[*id] = request->prompt;
  }
  while (!(*engine)->is_idle()) {
    const auto events = (*engine)->step();
    ASSERT_TRUE(events) << events.error().message;
    for (const EngineEvent& event : *events) {
      if (event.kind == EngineEvent::Kind::kToken) together[event.id].push_back(event.token.id);
    }
  }
  size_t i = 0;
  for (const auto& [id, tokens] : together) EXPECT_EQ(tokens, alone[i++]);
}

TEST(TextModel, ARequestHasTheDefaultsOfTheModel) {
  const TempFolder folder;
  std::filesystem::copy(test_file_path("hf/smollm2"), folder.path("model"), std::filesystem::copy_options::recursive);
  folder.write("model/generation_config.json",
               R"({"do_sample": true, "temperature": 0.25, "top_k": 7, "eos_token_id": [2, 5]})");
  const auto model = TextModel::open(folder.path("model"), {.tokenizer = test_file_path("tokenizers/gptrs_flat.json")});
  ASSERT_TRUE(model) << model.error().message;
  const auto request = model->make_request("Hello");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prompt, *model->encode("Hello"));
  EXPECT_EQ(request->sampling.temperature, 0.25);
  EXPECT_EQ(request->sampling.top_k, 7U);
  EXPECT_EQ(request->stop_tokens, model->generate_options().stop_tokens);
  EXPECT_FALSE(request->stop_tokens.empty());
  EXPECT_EQ(request->max_tokens, model->generate_options().max_tokens);
  EXPECT_TRUE(request->keep_past);
}

TEST(TextModel, ARequestThatTheCacheOfItsOptionsCannotHoldIsRefused) {
  const auto model = TextModel::open(tiny_gguf());
  ASSERT_TRUE(model) << model.error().message;
  GenerateOptions options = model->generate_options();
  options.max_tokens = 10;
  options.cache_capacity = 8;
  const auto request = model->make_request(std::vector<TokenId>{1, 2, 3}, options);
  ASSERT_FALSE(request);
  EXPECT_THAT(request.error().message, HasSubstr("a prompt of 3 tokens and 10 more need 12"));
  options.kv_cache = false;
  EXPECT_TRUE(model->make_request(std::vector<TokenId>{1, 2, 3}, options)) << "there is no cache to exceed";
}

TEST(TextModel, AStreamSaysWhatTheTokensSayUpToAStopString) {
  const auto model = TextModel::open(tiny_gguf());
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<TokenId> ids = written_by(model);
  TextStream all = model->make_stream();
  std::string text;
  for (const TokenId id : ids) text += *all.next(id);
  text += *all.finish();
  ASSERT_GE(text.size(), 4U);
  const std::string stop = text.substr(2, 2);
  TextStream stopping = model->make_stream({stop});
  std::string beginning;
  for (size_t i = 0; i < ids.size() && !stopping.stopped(); ++i) beginning += *stopping.next(ids[i]);
  EXPECT_TRUE(stopping.stopped());
  EXPECT_EQ(beginning + *stopping.finish(), text.substr(0, text.find(stop)));
}

TEST(Embedder, AModelThatWritesTextIsRefused) {
  const auto model = Embedder::open(test_file_path("hf/llama_plain"));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("does not support text embedding; it supports text generation"));
}

TEST(ImageModel, NamesTheLikeliestClassesOfAPicture) {
  const TempFolder folder;
  const auto model = ImageModel::open(write_rule_checkpoint(folder, "mobilenet_v2", 1), {.size = 32});
  ASSERT_TRUE(model) << model.error().message;
  const Picture picture{40, 30, std::vector<uint8_t>(40 * 30 * 3, 128)};
  const auto classes = model->classify(picture, 3);
  ASSERT_TRUE(classes) << classes.error().message;
  ASSERT_EQ(classes->size(), 3U);
  EXPECT_GE((*classes)[0].logit, (*classes)[1].logit);
  EXPECT_GT((*classes)[0].probability, 0);
}

}  // namespace
}  // namespace ballast::testing
