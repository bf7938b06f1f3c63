// Requests that are large: read by a thread of their own, so that whoever calls the service goes on, and bounded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

#include "ballast/runtime/embedder.h"
#include "ballast/serve/calls.h"
#include "ballast/serve/fields.h"
#include "ballast/serve/reader_thread.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of which thread the answer came.
class ThreadSink : public MemorySink {
 public:
  void send(serve::HttpAnswer answer) override {
    sender_.set_value(std::this_thread::get_id());
    MemorySink::send(std::move(answer));
  }
  std::thread::id sender() { return sender_.get_future().get(); }

 private:
  std::promise<std::thread::id> sender_;
};

std::thread::id sender_of(ServiceRig& rig, const std::string& body) {
  const auto sink = std::make_shared<ThreadSink>();
  const auto leave = rig.service().answer({.method = "POST", .path = "/v1/completions", .body = body, .key = {}}, sink);
  EXPECT_EQ(sink->wait().status, 400);
  return sink->sender();
}

TEST(LargeRequests, AreNotReadByTheThreadThatBringsThem) {
  ServiceRig rig;
  EXPECT_EQ(sender_of(rig, "{}"), std::this_thread::get_id());
  std::string numbers = R"({"prompt":[)";
  for (int i = 0; i < 100'000; ++i) numbers += "1,";
  EXPECT_NE(sender_of(rig, numbers + R"("x"]})"), std::this_thread::get_id());
  rig.wait_until_idle();
}

TEST(LargeRequests, AreAnsweredLikeSmallOnes) {
  ServiceRig rig;
  const std::string padding(100'000, ' ');
  const std::string small = R"({"model":"tiny","prompt":"It is a truth","max_tokens":6,"temperature":0})";
  const std::string text = json_at(rig.post("/v1/completions", small).body, "choices/0/text");
  EXPECT_EQ(json_at(rig.post("/v1/completions", padding + small).body, "choices/0/text"), text);
  EXPECT_EQ(rig.post("/v1/completions", padding).status, 400);
  EXPECT_EQ(rig.post("/nothing", padding).status, 404);
}

TEST(LargeRequests, OfClientsThatLeaveEnd) {
  ServiceRig rig;
  const std::string padding(100'000, ' ');
  for (int i = 0; i < 20; ++i) {
    const auto started =
        rig.start("POST", "/v1/completions",
                  padding + R"({"model":"tiny","prompt":"It is","max_tokens":24,"ignore_eos":true,"stream":true})");
    started.leave();
    started.leave();
  }
  rig.wait_until_idle();
  EXPECT_EQ(rig.get("/health").status, 200);
}

// A service whose reading thread is held up: what is large waits in line.
class BusyReader {
 public:
  explicit BusyReader(ServiceRig& rig) {
    rig.service().answer({.method = "POST", .path = "/v1/completions", .body = std::string(100'000, ' '), .key = {}},
                         sink_);
    sink_->wait_until_held();
  }
  ~BusyReader() { let_go(); }
  BusyReader(const BusyReader&) = delete;
  BusyReader& operator=(const BusyReader&) = delete;
  void let_go() {
    if (!std::exchange(is_gone_, true)) sink_->let_go();
  }

 private:
  std::shared_ptr<HeldSink> sink_ = std::make_shared<HeldSink>();
  bool is_gone_ = false;
};

std::string large(std::string_view request) { return std::string(20'000, ' ') + std::string(request); }

constexpr std::string_view kShortText = R"({"model":"tiny","prompt":"It","max_tokens":1,"stream":false})";

TEST(LargeRequests, HaveTheirTimeFromTheirArrival) {
  serve::ServiceOptions options = rig_options();
  options.deadline = std::chrono::seconds(1);
  ServiceRig rig(options);
  ASSERT_TRUE(rig.service().load_all());
  BusyReader busy(rig);
  const auto late = rig.start("POST", "/v1/completions", large(kShortText));
  std::this_thread::sleep_for(*options.deadline);
  busy.let_go();
  EXPECT_EQ(late.sink->wait().status, 504);
}

TEST(LargeRequests, AreTimedFromTheirArrival) {
  ServiceRig rig;
  BusyReader busy(rig);
  const auto text = rig.start("POST", "/api/generate", large(kShortText));
  const auto vector = rig.start("POST", "/api/embed", large(R"({"model":"embed","input":"ship"})"));
  constexpr std::chrono::nanoseconds kHeld = std::chrono::milliseconds(50);
  std::this_thread::sleep_for(kHeld);
  busy.let_go();
  for (const auto& sink : {text.sink, vector.sink}) {
    const serve::HttpAnswer answer = sink->wait();
    const std::string took(json_at(answer.body, "total_duration"));
    EXPECT_GE(std::strtoll(took.c_str(), nullptr, 10), kHeld.count()) << answer.body;
  }
  EXPECT_GE(rig.metric("ballast_time_to_first_token_seconds_sum"), std::chrono::duration<double>(kHeld).count());
}

TEST(LargeRequests, CountForTheirKeyWhileTheyWait) {
  serve::ServiceOptions options = rig_options();
  options.most_per_key = 1;
  ServiceRig rig(options);
  BusyReader busy(rig);
  const auto first = rig.start("POST", "/v1/completions", large(kShortText), "alice");
  for (const std::string& body : {large(kShortText), std::string(kShortText)}) {
    const auto refused = rig.post("/v1/completions", body, "alice");
    EXPECT_EQ(refused.status, 429) << refused.body;
    EXPECT_EQ(json_at(refused.body, "error/code"), "\"key_limit\"");
  }
  const auto other = rig.start("POST", "/v1/completions", large(kShortText), "bob");
  first.leave();
  const auto next = rig.start("POST", "/v1/completions", large(kShortText), "alice");
  busy.let_go();
  EXPECT_EQ(other.sink->wait().status, 200);
  EXPECT_EQ(next.sink->wait().status, 200);
  // Errors give the place back, too.
  EXPECT_EQ(rig.post("/v1/completions", large("{}"), "alice").status, 400);
  EXPECT_EQ(rig.post("/nothing", large("{}"), "alice").status, 404);
  EXPECT_EQ(rig.post("/v1/models", large("{}"), "alice").status, 405);
  EXPECT_EQ(rig.post("/v1/completions", large(kShortText), "alice").status, 200);
}

TEST(LargeRequests, ThatCameBeforeTheServerStopsAreAnswered) {
  ServiceRig rig;
  BusyReader busy(rig);
  const auto before = rig.start("POST", "/v1/completions", large(kShortText));
  rig.service().refuse_new();
  const auto after = rig.start("POST", "/v1/completions", large(kShortText));
  busy.let_go();
  EXPECT_EQ(before.sink->wait().status, 200);
  EXPECT_EQ(after.sink->wait().status, 503);
}

TEST(ReaderThread, ForgetsWhatIsInLineAndTellsWhatIsBeingRead) {
  std::promise<void> begun, go_on;
  std::vector<std::string> seen;
  {
    serve::ReaderThread reader;
    const auto leave_first = reader.post([&] {
      begun.set_value();
      go_on.get_future().wait();
      seen.emplace_back("read the first");
      return [&] { seen.emplace_back("told the first"); };
    });
    const auto body = std::make_shared<std::string>("large");
    const auto leave_second = reader.post([&seen, body] {
      seen.push_back("read the second: " + *body);
      return serve::ReaderThread::Leave();
    });
    begun.get_future().wait();
    EXPECT_FALSE(reader.is_idle());
    leave_second();
    EXPECT_EQ(body.use_count(), 1);  // at once, not when its turn comes
    leave_first();
    go_on.set_value();
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"read the first", "told the first"}));
}

TEST(ReaderThread, TellsWhatWasRead) {
  int told = 0;
  serve::ReaderThread reader;
  const auto leave = reader.post([&] { return [&] { ++told; }; });
  while (!reader.is_idle()) std::this_thread::yield();
  leave();
  leave();
  EXPECT_EQ(told, 1);
}

TEST(LargeRequests, TakeNoMemoryOnceTheirClientHasLeft) {
  serve::ServiceState state(rig_options());
  const auto sink = std::make_shared<MemorySink>();
  const auto start = [&](const std::shared_ptr<MemorySink>& to, serve::ShortWork work) {
    serve::Call call{{}, to};
    return serve::start_short_work(state, call, "tiny", std::move(work));
  };
  std::promise<void> begun, go_on;
  const serve::HttpAnswer nothing;
  start(sink, [&](auto&, const auto&) {
    begun.set_value();
    go_on.get_future().wait();
    return nothing;
  });
  begun.get_future().wait();
  const auto body = std::make_shared<std::string>("large");
  const auto leave = start(std::make_shared<MemorySink>(), [body, &nothing](auto&, const auto&) { return nothing; });
  EXPECT_GT(body.use_count(), 1);
  leave();
  EXPECT_EQ(body.use_count(), 1);  // at once, not when its turn comes
  go_on.set_value();
  sink->wait();
}

TEST(LargeRequests, ListsAreNotTakenApartBeyondWhatIsAllowed) {
  std::string text = R"({"list":[)";
  for (int i = 0; i < 1000; ++i) text += "1,";
  text += "1]}";
  serve::Fields fields(text);
  EXPECT_THAT(fields.elements("list", 10), IsEmpty());
  EXPECT_THAT(fields.refusal()->message, HasSubstr("has more than 10 elements"));
}

TEST(LargeRequests, TextsThatCannotFitAreNotMadeTokensOf) {
  ServiceRig rig;
  const std::string text(1'100'000, 'a');
  const auto tokens = rig.post("/tokenize", fmt::format(R"({{"model":"tiny","content":"{}"}})", text));
  EXPECT_EQ(tokens.status, 400);
  EXPECT_EQ(json_at(tokens.body, "error/code"), "\"context_length_exceeded\"");
  const auto vectors = rig.post("/v1/embeddings", fmt::format(R"({{"model":"embed","input":["a","{}"]}})", text));
  EXPECT_EQ(vectors.status, 400);
  EXPECT_THAT(vectors.body, HasSubstr("text 2 has 1100000 bytes"));
  const auto counted =
      rig.post("/v1/messages/count_tokens",
               fmt::format(R"({{"model":"tiny","messages":[{{"role":"user","content":"a"}}],"tools":[{{"name":"f",)"
                           R"("description":"{}","input_schema":{{"type":"object"}}}}]}})",
                           text));
  EXPECT_EQ(counted.status, 400);
  EXPECT_THAT(counted.body, HasSubstr("far more than"));
  EXPECT_EQ(rig.post("/detokenize", R"({"tokens":[1,2,-3]})").status, 400);
  EXPECT_EQ(rig.post("/detokenize", R"({"tokens":"x"})").status, 400);
  EXPECT_EQ(rig.post("/detokenize", R"({"tokens":[]})").status, 200);
}

TEST(LargeRequests, OfTextsThatAreCutCanBeCancelledBetweenThem) {
  const auto embedder = Embedder::open(rig_options().models.back().path);
  ASSERT_TRUE(embedder) << embedder.error().message;
  const std::vector<std::string> texts(3, std::string(70'000, 'a'));
  const auto made = embedder->embed(texts, [](const ProgressUpdate&) { return false; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace ballast::testing
