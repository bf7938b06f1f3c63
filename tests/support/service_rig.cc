#include "tests/support/service_rig.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/json_path.h"
#include "tests/support/recorded_bert.h"
#include "tests/support/recorded_models.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

namespace {

constexpr std::chrono::seconds kRigPatience(120);

constexpr std::string_view kRigTemplate =
    "{# It takes tools without showing them, and a call is written as <tool_call>{}</tool_call>. #}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";
constexpr std::string_view kThinkingTemplate =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    "{% if enable_thinking is undefined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n{% endif %}";

// The model that comes with Ballast, with a chat template beside it.
void write_chat_model(const TempFolder& folder, std::string_view name, std::string_view chat_template) {
  const std::filesystem::path from = std::filesystem::path(default_model_file()).parent_path();
  const std::filesystem::path to = folder.path(name);
  std::filesystem::create_directories(to);
  for (const char* file : {"model.gptrs", "tokenizer.json"}) std::filesystem::copy_file(from / file, to / file);
  if (!chat_template.empty()) folder.write(std::string(name) + "/chat_template.jinja", chat_template);
}

struct RigModels {
  RigModels() {
    write_chat_model(text, "tiny", kRigTemplate);
    write_chat_model(text, "thinker", kThinkingTemplate);
    auto files = sentence_files(R"({"word_embedding_dimension": 48, "pooling_mode_mean_tokens": true})");
    files.push_back(bert_tokenizer());
    copy_bert(embed, files);
  }
  TempFolder text, embed;
};

const RigModels& rig_models() {
  static const RigModels models;
  return models;
}

}  // namespace

void MemorySink::send(serve::HttpAnswer answer) {
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(answers_++, 0) << "a second answer: " << answer.body;
  answer_ = std::move(answer);
  ended_ = true;
  changed_.notify_all();
}

void MemorySink::begin(serve::HttpAnswer head) {
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(answers_++, 0) << "a second answer: " << head.body;
  pieces_.push_back(head.body);
  answer_ = std::move(head);
  changed_.notify_all();
}

void MemorySink::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(ended_) << "a piece behind the end: " << piece;
  EXPECT_EQ(answers_, 1) << "a piece before the beginning";
  answer_.body += piece;
  pieces_.push_back(std::move(piece));
  changed_.notify_all();
}

void MemorySink::end() {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(ended_);
  ended_ = true;
  changed_.notify_all();
}

size_t MemorySink::unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

serve::HttpAnswer MemorySink::wait() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kRigPatience, [this] { return ended_; })) << "no end of the answer";
  return answer_;
}

void MemorySink::wait_for_pieces(size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kRigPatience, [&] { return ended_ || pieces_.size() >= count; }));
}

std::vector<std::string> MemorySink::pieces() {
  const std::lock_guard lock(mutex_);
  return pieces_;
}

bool MemorySink::has_ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void MemorySink::pretend_unsent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ = bytes;
}

void HeldSink::hold() {
  held_.set_value();
  go_on_.get_future().wait();
}

void HeldSink::send(serve::HttpAnswer answer) {
  hold();
  MemorySink::send(std::move(answer));
}

void HeldSink::begin(serve::HttpAnswer head) {
  hold();
  MemorySink::begin(std::move(head));
}

serve::ServiceOptions rig_options() {
  const RigModels& models = rig_models();
  serve::ServiceOptions options;
  options.models = {
      {.name = "tiny", .path = models.text.path("tiny/model.gptrs"), .aliases = {"ballast-test-1b", "org/tiny:1"}},
      {.name = "plain", .path = default_model_file()},
      {.name = "thinker", .path = models.text.path("thinker/model.gptrs")},
      {.name = "embed", .path = models.embed.path(), .aliases = {"embed-small"}}};
  options.load.threads = 1;
  options.most_tokens = 24;
  options.version = "1.2.3";
  return options;
}

ServiceRig::ServiceRig(serve::ServiceOptions options) {
  auto made = serve::Service::make(std::move(options));
  if (!made) {
    ADD_FAILURE() << made.error().message;
    std::abort();
  }
  service_ = std::move(*made);
}

ServiceRig::Started ServiceRig::start(std::string_view method, std::string_view path, std::string_view body,
                                      std::string_view key) {
  auto sink = std::make_shared<MemorySink>();
  auto leave = service_->answer(
      {.method = std::string(method), .path = std::string(path), .body = std::string(body), .key = std::string(key)},
      sink);
  return {std::move(sink), std::move(leave)};
}

serve::HttpAnswer ServiceRig::post(std::string_view path, std::string_view body, std::string_view key) {
  return start("POST", path, body, key).sink->wait();
}

serve::HttpAnswer ServiceRig::get(std::string_view path) { return start("GET", path, "").sink->wait(); }

double ServiceRig::metric(std::string_view name) {
  const std::string text = get("/metrics").body;
  const std::string line = "\n" + std::string(name) + " ";
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + line.size(), nullptr);
}

void ServiceRig::wait_until_idle() {
  const auto end = std::chrono::steady_clock::now() + kRigPatience;
  while (!service_->is_idle() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(service_->is_idle());
}

void ServiceRig::wait_for_metric(std::string_view name, double value) {
  const auto end = std::chrono::steady_clock::now() + kRigPatience;
  while (metric(name) != value && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(metric(name), value) << name;
}

std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> events;
  constexpr std::string_view kData = "data: ";
  while (!stream.empty()) {
    const size_t end = std::min(stream.find('\n'), stream.size());
    const std::string_view line = stream.substr(0, end);
    stream.remove_prefix(std::min(end + 1, stream.size()));
    if (line.starts_with(kData) && line != "data: [DONE]") events.emplace_back(line.substr(kData.size()));
    else if (line.starts_with('{')) events.emplace_back(line);
  }
  return events;
}

std::string joined(const std::vector<std::string>& events, std::string_view path) {
  std::string text;
  for (const std::string& event : events) text += json_string(json_at(event, path));
  return text;
}

std::string chat_text(const serve::HttpAnswer& answer) {
  return json_string(json_at(answer.body, "choices/0/message/content"));
}

}  // namespace ballast::testing
