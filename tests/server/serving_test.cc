// The service behind the server, and many clients at a time: some are answered, others leave in the middle.
#include <gmock/gmock.h>

#include <atomic>
#include <random>

#include "apps/ballast/server/http_server.h"
#include "tests/server/test_client.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kServedTokens = 8;

std::string chat_request(size_t number, bool stream) {
  const std::string body =
      fmt::format(R"({{"model":"tiny","messages":[{{"role":"user","content":"Number {} said"}}],"seed":{},)"
                  R"("temperature":1.2,"max_tokens":{},"ignore_eos":true,"stream":{}}})",
                  number, number, kServedTokens, stream);
  return fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                     body.size(), body);
}

std::string body_of(const std::string& answer) {
  const size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

std::string content_of(const std::string& answer) {
  return json_string(json_at(body_of(answer), "choices/0/message/content"));
}

class ServingTest : public ::testing::Test {
 protected:
  void start(serve::ServiceOptions options, cli::ServerOptions settings = {}) {
    rig_ = std::make_unique<ServiceRig>(std::move(options));
    settings.log = [this](std::string_view) { ++logged_; };
    server_ = std::make_unique<cli::HttpServer>(std::move(settings));
    auto listeners = cli::open_listeners({.host = "127.0.0.1", .port = 0});
    ASSERT_TRUE(listeners) << listeners.error().message;
    const std::string name = listeners->front().name;
    port_ = static_cast<uint16_t>(std::stoul(name.substr(name.rfind(':') + 1)));
    ASSERT_TRUE(server_->add(listeners->front(), cli::HostRule::kLoopback));
    cli::ServerHooks hooks;
    hooks.takes_signals = false;
    hooks.on_drain = [this] { rig_->service().refuse_new(); };
    hooks.on_refusal = [this](int status) { rig_->service().count_refusal(status); };
    hooks.is_idle = [this] { return rig_->service().is_idle(); };
    thread_ = std::thread([this, hooks] { end_ = server_->run(rig_->service(), hooks); });
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->drain();
    thread_.join();
    EXPECT_EQ(end_, cli::HttpServer::End::kDrained);
    rig_.reset();  // its threads write to the server's queue
    server_.reset();
  }
  std::string ask(const std::string& request) {
    TestClient client(port_);
    client.say(request);
    return client.answer();
  }
  void expect_nothing_left() {
    rig_->wait_until_idle();
    for (const char* left : {"ballast_kv_cache_pages_in_use", "ballast_sequences_running", "ballast_sequences_waiting"})
      rig_->wait_for_metric(fmt::format("{}{{model=\"tiny\"}}", left), 0);
  }

  std::unique_ptr<cli::HttpServer> server_;
  std::unique_ptr<ServiceRig> rig_;
  std::thread thread_;
  cli::HttpServer::End end_ = cli::HttpServer::End::kStopped;
  std::atomic<int> logged_{0};
  uint16_t port_ = 0;
};

// One of the ways in which clients behave badly.
void misbehave(uint16_t port, size_t number, size_t way, std::mt19937& random) {
  TestClient client(port);
  const std::string request = chat_request(number, way % 2 == 0);
  switch (way) {
    case 0:  // leaves after the first piece
      client.say(request);
      client.until("data: ");
      return;
    case 1:  // leaves while the whole answer is made
      client.say(request);
      return client.break_off();
    case 2: return client.say(std::string_view(request).substr(0, random() % request.size()));
    case 3:  // stops sending in the middle of the body
      client.say(std::string_view(request).substr(0, request.size() - 5));
      client.end_of_sending();
      client.rest();
      return;
    case 4: client.try_to_say(request.substr(request.size() / 2) + "\r\n\r\n"); return client.break_off();
    default:  // sends ahead, and leaves
      client.say(request + request + request);
      client.until("\r\n\r\n");
  }
}

TEST_F(ServingTest, EverybodyGetsTheAnswerTheyGetAloneWhileOthersComeAndGo) {
  constexpr size_t kClients = 4, kRounds = 8;
  serve::ServiceOptions options = rig_options();
  options.engine.most_sequences = 3;  // so that some wait, and leave while they do
  start(options);
  std::vector<std::string> alone;
  for (size_t i = 0; i < kClients; ++i) alone.push_back(content_of(ask(chat_request(i, false))));
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back([this, i, &alone] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (size_t round = 0; round < kRounds; ++round) {
        misbehave(port_, 100 + i, (i + round) % 6, random);
        EXPECT_EQ(content_of(ask(chat_request(i, false))), alone[i]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  expect_nothing_left();
}

TEST_F(ServingTest, MoreThanTheQueueTakesIsToldToComeBack) {
  serve::ServiceOptions options = rig_options();
  options.engine.most_sequences = 1;
  options.most_waiting = 2;
  options.most_tokens = 200;
  start(options);
  const std::string body = R"({"model":"tiny","prompt":"a","ignore_eos":true,"stream":true})";
  const std::string request = fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  std::vector<std::unique_ptr<TestClient>> flood;
  for (int i = 0; i < 40; ++i) {
    flood.push_back(std::make_unique<TestClient>(port_));
    flood.back()->say(request);
  }
  int busy = 0, streams = 0;
  for (const auto& client : flood) {
    const std::string head = client->until("\r\n\r\n");
    EXPECT_THAT(head, ::testing::AnyOf(StartsWith("HTTP/1.1 200 "), StartsWith("HTTP/1.1 429 ")));
    if (head.starts_with("HTTP/1.1 200 ")) ++streams;
    else if (head.find("\r\nRetry-After: ") != std::string::npos) ++busy;
  }
  EXPECT_EQ(busy + streams, 40);
  EXPECT_GT(streams, 0);
  flood.clear();
  expect_nothing_left();
}

TEST_F(ServingTest, RefusalsOfTheServerAreCounted) {
  start(rig_options());
  ask("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  ask("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_EQ(rig_->metric("ballast_requests_refused_unread_total{status=\"403\"}"), 2);
  EXPECT_EQ(rig_->metric("ballast_requests_refused_unread_total{status=\"413\"}"), 1);
}

TEST_F(ServingTest, ClientsWithLargeRequestsMayLeaveToo) {
  start(rig_options());
  const std::string body = std::string(1'000'000, ' ') + R"({"model":"tiny","prompt":"a","ignore_eos":true})";
  const std::string request = fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  for (int i = 0; i < 20; ++i) {
    TestClient client(port_);
    client.try_to_say(request);
    if (i % 2 == 0) client.break_off();
  }
  expect_nothing_left();
  EXPECT_THAT(ask(request), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServingTest, StoppingFinishesTheAnswersThatWereBegun) {
  start(rig_options());
  TestClient streaming(port_);
  streaming.say(chat_request(1, true));
  streaming.until("data: ");
  server_->drain();
  EXPECT_THAT(streaming.rest(), HasSubstr("data: [DONE]"));
  stop();
}

}  // namespace
}  // namespace ballast::testing
