// A server on a free port in a thread of its own, and an answerer that a test answers for.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "apps/ballast/server/http_server.h"
#include "apps/ballast/server/page_files.h"
#include "tests/server/test_client.h"

namespace ballast::testing {

// In place of the generated table.
inline constexpr unsigned char kTestPage[] = {'<', 'p', '>'};
inline constexpr unsigned char kTestScript[] = {'1', ';'};
inline constexpr cli::PageFile kTestPages[] = {{"/", "text/html; charset=utf-8", "\"abc\"", kTestPage},
                                               {"/chat.js", "text/javascript; charset=utf-8", "\"def\"", kTestScript}};

// Keeps the sinks of requests, so that a test answers them when it likes.
class TestAnswerer final : public serve::Answerer {
 public:
  struct Open {
    serve::HttpRequest request;
    std::shared_ptr<serve::AnswerSink> sink;
  };

  std::function<void()> answer(serve::HttpRequest request, std::shared_ptr<serve::AnswerSink> sink) override {
    if (request.path == "/echo") {
      sink->send({.status = 200, .content_type = "text/plain", .body = request.method + " " + request.body});
      return {};
    }
    if (knows_nothing) {
      sink->send({.status = 404, .content_type = "text/plain", .body = "not found"});
      return {};
    }
    const std::lock_guard lock(mutex_);
    open_.push_back({std::move(request), std::move(sink)});
    changed_.notify_all();
    return [this] { ++cancelled; };
  }

  Open wait_for(size_t index = 0) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return open_.size() > index; }));
    return open_.size() > index ? open_[index] : Open{};
  }

  std::atomic<int> cancelled{0};
  bool knows_nothing = false;  // set before the server runs: everything but /echo is 404

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Open> open_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void start(cli::ServerOptions options = {}, const std::string& keys = "") {
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_ += line;
    };
    if (!options.site) options.site = cli::make_chat_site(kTestPages);
    server_ = std::make_unique<cli::HttpServer>(std::move(options));
    if (!keys.empty()) server_->set_keys(*cli::ApiKeys::parse(keys, "keys"));
    auto listeners = cli::open_listeners({.host = host_, .port = 0});
    ASSERT_TRUE(listeners) << listeners.error().message;
    const std::string name = listeners->front().name;
    port_ = static_cast<uint16_t>(std::stoul(name.substr(name.rfind(':') + 1)));
    ASSERT_TRUE(server_->add(listeners->front(), cli::HostRule::kLoopback));
    thread_ = std::thread([this] { end_ = server_->run(answerer_, {.takes_signals = false}); });
  }
  // Whatever a test leaves open, the server ends: its clients are gone by then.
  void TearDown() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->drain();
    thread_.join();
    EXPECT_EQ(end_, cli::HttpServer::End::kDrained);
  }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  std::string one_answer(std::string_view request) {
    TestClient client(port_);
    client.say(request);
    return client.rest();
  }

  std::string host_ = "127.0.0.1";  // what it listens on
  TestAnswerer answerer_;
  std::unique_ptr<cli::HttpServer> server_;
  std::thread thread_;
  cli::HttpServer::End end_ = cli::HttpServer::End::kStopped;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::string log_;
};

}  // namespace ballast::testing
