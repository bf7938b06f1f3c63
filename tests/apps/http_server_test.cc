// The server over real sockets, with an answerer of the test's own.
#include "apps/ballast/server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "apps/ballast/server/page_files.h"

namespace ballast::cli {

namespace {

constexpr unsigned char kTestPage[] = {'<', 'p', '>'};
constexpr unsigned char kTestScript[] = {'1', ';'};
constexpr PageFile kTestPages[] = {{"/", "text/html; charset=utf-8", "\"abc\"", kTestPage},
                                   {"/chat.js", "text/javascript; charset=utf-8", "\"def\"", kTestScript}};

}  // namespace

// In place of the generated table.
std::span<const PageFile> page_files() { return kTestPages; }

}  // namespace ballast::cli

namespace ballast::testing {
namespace {

using namespace ballast::cli;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Open> open_;
};

bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

class TestClient {
 public:
  explicit TestClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~TestClient() { leave(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void leave() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void end_of_sending() { ::shutdown(fd_, SHUT_WR); }
  void say(std::string_view text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  void ask(std::string_view path, std::string_view more = "", std::string_view method = "GET",
           std::string_view body = "") {
    say(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n{}", method, path, more, body));
  }

  // Everything up to `end`; what came where the server closes before that.
  std::string until(std::string_view end) {
    while (received_.find(end) == std::string::npos && receive()) {
    }
    const size_t at = received_.find(end);
    const size_t size = at == std::string::npos ? received_.size() : at + end.size();
    std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }
  // An answer with a Content-Length.
  std::string answer() {
    std::string text = until("\r\n\r\n");
    const size_t at = text.find("content-length: ");
    const size_t length = at == std::string::npos ? 0 : std::stoul(text.substr(at + 16));
    while (received_.size() < length && receive()) {
    }
    text += received_.substr(0, length);
    received_.erase(0, std::min(length, received_.size()));
    return text;
  }

 private:
  bool receive() {
    char buffer[4096];
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 60'000) != 1) return false;
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count > 0) received_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  int fd_;
  std::string received_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}, const std::string& keys = "") {
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_ += line;
    };
    server_ = std::make_unique<HttpServer>(std::move(options));
    if (!keys.empty()) server_->set_keys(*ApiKeys::parse(keys, "keys"));
    auto listeners = open_listeners({.host = "127.0.0.1", .port = 0});
    ASSERT_TRUE(listeners) << listeners.error().message;
    const std::string name = listeners->front().name;
    port_ = static_cast<uint16_t>(std::stoul(name.substr(name.rfind(':') + 1)));
    ASSERT_TRUE(server_->add(listeners->front(), HostRule::kLoopback));
    thread_ = std::thread([this] { end_ = server_->run(answerer_, {.takes_signals = false}); });
  }
  // Whatever a test leaves open, the server ends: its clients are gone by then.
  void TearDown() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->drain();
    thread_.join();
    EXPECT_EQ(end_, HttpServer::End::kDrained);
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

  TestAnswerer answerer_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  HttpServer::End end_ = HttpServer::End::kStopped;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::string log_;
};

TEST_F(HttpServerTest, AnswersOneRequestAfterTheOtherOnOneConnection) {
  start();
  TestClient client(port_);
  for (const char* body : {"one", "two"}) {
    client.ask("/echo", "Content-Length: 3\r\n", "POST", body);
    const std::string answer = client.answer();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nx-request-id: req_"));
    EXPECT_TRUE(answer.ends_with(fmt::format("\r\n\r\nPOST {}", body))) << answer;
  }
  EXPECT_TRUE(becomes_true([&] { return log().find("POST /echo 200 ") != std::string::npos; }));
}

TEST_F(HttpServerTest, RequestsThatWereSentAheadAreAnsweredInOrder) {
  start();
  TestClient client(port_);
  std::string all;
  constexpr int kRequests = 2000;  // refused ones and the page are answered without the answerer
  for (int i = 0; i < kRequests; ++i) {
    all += i % 2 == 0 ? fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n{:04}", i)
                      : "GET /chat.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  std::thread sender([&] { client.say(all); });
  for (int i = 0; i < kRequests; ++i) {
    const std::string answer = client.answer();
    ASSERT_TRUE(answer.ends_with(i % 2 == 0 ? fmt::format("POST {:04}", i) : "\r\n\r\n1;")) << i << answer;
  }
  sender.join();
}

TEST_F(HttpServerTest, APieceArrivesBeforeTheNextIsWritten) {
  start();
  TestClient client(port_);
  client.ask("/stream");
  const auto sink = answerer_.wait_for().sink;
  sink->begin({.status = 200, .content_type = "text/event-stream", .body = "first"});
  EXPECT_THAT(client.until("first\r\n"), HasSubstr("transfer-encoding: chunked"));
  std::thread other([&] { sink->write("second"); });
  EXPECT_EQ(client.until("second\r\n"), "6\r\nsecond\r\n");
  other.join();
  sink->end();
  EXPECT_EQ(client.until("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_TRUE(becomes_true([&] { return sink->unsent() == 0; }));
  client.ask("/echo");  // the connection is still good
  EXPECT_THAT(client.answer(), HasSubstr("200 OK"));
  EXPECT_EQ(answerer_.cancelled, 0);
}

TEST_F(HttpServerTest, AClientOfHttp10GetsItsPiecesUntilTheEnd) {
  start();
  TestClient client(port_);
  client.say("GET /stream HTTP/1.0\r\n\r\n");
  const auto sink = answerer_.wait_for().sink;
  sink->begin({.status = 200, .content_type = "text/plain", .body = "a"});
  sink->write("b");
  sink->end();
  const std::string answer = client.rest();
  EXPECT_THAT(answer, Not(HasSubstr("chunked")));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nab"));
}

TEST_F(HttpServerTest, AClientThatLeavesIsNoticedAtOnceAndOnlyOnce) {
  start();
  {
    TestClient waiting(port_);
    waiting.ask("/wait");
    answerer_.wait_for(0);
  }
  EXPECT_TRUE(becomes_true([&] { return answerer_.cancelled == 1; }));  // nothing was ever written to it
  {
    TestClient reading(port_);
    reading.ask("/stream");
    answerer_.wait_for(1).sink->begin({.status = 200, .content_type = "text/plain", .body = "a"});
    reading.until("a\r\n");
  }
  EXPECT_TRUE(becomes_true([&] { return answerer_.cancelled == 2; }));
  const auto sink = answerer_.wait_for(1).sink;
  sink->write("for nobody");
  sink->end();
  EXPECT_EQ(sink->unsent(), 0U);
  EXPECT_TRUE(becomes_true([&] { return log().find("GET /stream 499 ") != std::string::npos; }));
  stop();
  EXPECT_EQ(answerer_.cancelled, 2);
}

TEST_F(HttpServerTest, AClientThatOnlyStopsSendingStillGetsAnAnswerThatIsThere) {
  start();
  TestClient client(port_);
  client.ask("/echo");
  client.end_of_sending();
  EXPECT_THAT(client.rest(), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, AClientThatReadsTooSlowlyIsDropped) {
  start({.limits = {.unsent_bytes = 1 << 16}});
  TestClient client(port_);
  client.ask("/stream");
  const auto sink = answerer_.wait_for().sink;
  sink->begin({.status = 200, .content_type = "text/plain", .body = {}});
  // The system's own buffers take some megabytes.
  EXPECT_TRUE(becomes_true([&] {
    for (int i = 0; i < 16; ++i) sink->write(std::string(1 << 16, 'x'));
    return answerer_.cancelled == 1;
  }));
}

TEST_F(HttpServerTest, AClientThatTakesNothingIsDroppedAfterAWhile) {
  start({.limits = {.write_time = std::chrono::milliseconds(50)}});
  TestClient client(port_);
  client.ask("/big");
  answerer_.wait_for().sink->send({.status = 200, .content_type = "text/plain", .body = std::string(32 << 20, 'x')});
  EXPECT_TRUE(becomes_true([&] { return log().find("GET /big 499 ") != std::string::npos; }));
}

TEST_F(HttpServerTest, UnsentBytesAreThoseThatTheClientHasNotTaken) {
  start();
  TestClient client(port_);
  client.ask("/stream");
  const auto sink = answerer_.wait_for().sink;
  sink->begin({.status = 200, .content_type = "text/plain", .body = {}});
  sink->write(std::string(3 << 20, 'x'));
  client.until("\r\n\r\n");
  sink->end();
  EXPECT_THAT(client.until("\r\n0\r\n\r\n"), HasSubstr("xxxx"));
  EXPECT_TRUE(becomes_true([&] { return sink->unsent() == 0; }));
}

TEST_F(HttpServerTest, SlowRequestsAreEndedAndIdleConnectionsClosed) {
  start({.limits = {.header_time = std::chrono::milliseconds(50),
                    .body_time = std::chrono::milliseconds(50),
                    .idle_time = std::chrono::milliseconds(50)}});
  EXPECT_EQ(one_answer(""), "");
  EXPECT_THAT(one_answer("GET / HTTP/1.1\r\nHost: lo"), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(one_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab"),
              StartsWith("HTTP/1.1 408 "));
  TestClient idle(port_);
  idle.ask("/echo");
  EXPECT_THAT(idle.rest(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, WhatIsTooLargeIsRefusedBeforeItIsRead) {
  start({.limits = {.header_bytes = 1024, .headers = 100, .body_bytes = 1000}, .gate = {.headers = 10}});
  EXPECT_THAT(one_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(one_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(one_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                         std::string(4000, 'a')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(one_answer("GET /echo HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(2000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  std::string many = "GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  for (int i = 0; i < 20; ++i) many += fmt::format("X{}: 1\r\n", i);
  EXPECT_THAT(one_answer(many + "\r\n"), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, BodiesOfAllRequestsTogetherHaveALimit) {
  start({.limits = {.body_bytes = 1000, .all_body_bytes = 1500}});
  const std::string request =
      "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x');
  TestClient first(port_);
  first.say(request);
  answerer_.wait_for();
  TestClient refused(port_);
  refused.say(request);
  EXPECT_THAT(refused.answer(), StartsWith("HTTP/1.1 503 "));
  answerer_.wait_for().sink->send({.status = 200, .content_type = "text/plain", .body = {}});
  first.answer();
  TestClient second(port_);  // there is room again
  second.say(request);
  answerer_.wait_for(1).sink->send({.status = 200, .content_type = "text/plain", .body = {}});
  EXPECT_THAT(second.answer(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefused) {
  start();
  for (const std::string& request : std::vector<std::string>{
           "\x16\x03\x01\x02", "GET\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
           "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}) {
    const std::string answer = one_answer(request + std::string(8, '\n'));
    EXPECT_THAT(answer, ::testing::AnyOf(StartsWith("HTTP/1.1 400 "), StartsWith("HTTP/1.1 413 "))) << request;
  }
}

TEST_F(HttpServerTest, ARequestCutAnywhereHarmsNobody) {
  start();
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;a=b\r\nde\r\n0\r\nX: "
      "y\r\n\r\n";
  for (size_t size = 0; size < request.size(); ++size) {
    TestClient client(port_);
    client.say(std::string_view(request).substr(0, size));
    if (size % 2 == 0) client.end_of_sending();
  }
  TestClient slow(port_);
  for (const char c : request) slow.say(std::string(1, c));
  EXPECT_TRUE(slow.answer().ends_with("POST abcde"));
}

TEST_F(HttpServerTest, ABodyIsAskedForOnlyWhereItIsWanted) {
  start({}, "alice:sk-alice-0123456789");
  TestClient client(port_);
  const std::string_view expects = "Content-Length: 3\r\nExpect: 100-continue\r\n";
  client.ask("/echo", fmt::format("{}x-api-key: sk-alice-0123456789\r\n", expects), "POST");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.say("abc");
  EXPECT_TRUE(client.answer().ends_with("POST abc"));
  EXPECT_TRUE(becomes_true([&] { return log().find("key=alice") != std::string::npos; }));
  TestClient stranger(port_);
  stranger.ask("/echo", expects, "POST");
  EXPECT_THAT(stranger.rest(), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpServerTest, AClientOfTheOldVersionIsNotToldToContinue) {
  start();
  TestClient client(port_);
  client.say("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  client.say("abc");
  const std::string answer = client.rest();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(answer.ends_with("POST abc"));
}

// Behind a proxy, what follows may be the body of one client and be taken for the request of another.
TEST_F(HttpServerTest, BehindACodingThatIsNotReadNothingIsARequest) {
  start();
  for (const std::string_view coding : {"identity", "gzip", "chunked, gzip"}) {
    TestClient client(port_);
    client.ask("/echo", fmt::format("Transfer-Encoding: {}\r\n", coding), "POST");
    client.ask("/echo");
    const std::string answers = client.rest();
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 501 ")) << coding;
    EXPECT_THAT(answers, Not(HasSubstr("HTTP/1.1 200 "))) << coding;
  }
}

TEST_F(HttpServerTest, HeadHasTheLengthButNotTheBody) {
  start();
  TestClient client(port_);
  client.ask("/echo", "", "HEAD");
  EXPECT_THAT(client.until("\r\n\r\n"), HasSubstr("content-length: 4\r\n"));
  client.ask("/chat.js");
  EXPECT_TRUE(client.answer().ends_with("\r\n\r\n1;"));
}

TEST_F(HttpServerTest, ThePageComesWithItsPolicyAndIsNotSentTwice) {
  start({.gate = {.open_paths = {"/health", "/", "/chat.js"}}}, "alice:sk-alice-0123456789");
  TestClient client(port_);
  client.ask("/?x=1");
  const std::string page = client.answer();
  EXPECT_TRUE(page.ends_with("\r\n\r\n<p>"));
  EXPECT_THAT(page, HasSubstr("content-security-policy: default-src 'none'; script-src 'self'"));
  EXPECT_THAT(page, HasSubstr("etag: \"abc\"\r\n"));
  client.ask("/", "If-None-Match: W/\"x\", \"abc\"\r\n");
  EXPECT_THAT(client.until("\r\n\r\n"), StartsWith("HTTP/1.1 304 "));
  client.ask("/echo");
  EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpServerTest, PagesOfAListedOriginMayReadTheAnswer) {
  start({.gate = {.origins = {"https://chat.example"}}});
  TestClient client(port_);
  client.ask("/echo", "Origin: https://chat.example\r\n");
  EXPECT_THAT(client.answer(), HasSubstr("access-control-allow-origin: https://chat.example\r\n"));
  client.ask("/echo", "Origin: https://evil.example\r\n");
  const std::string refused = client.answer();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(refused, Not(HasSubstr("access-control")));
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreToldSo) {
  start({.limits = {.connections = 2}});
  TestClient first(port_), second(port_);
  for (TestClient* client : {&first, &second}) {
    client->ask("/echo");
    client->answer();
  }
  EXPECT_THAT(one_answer("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  first.leave();
  EXPECT_TRUE(becomes_true([&] {
    TestClient third(port_);
    third.ask("/echo");
    return third.answer().starts_with("HTTP/1.1 200 ");
  }));
}

TEST_F(HttpServerTest, DrainingFinishesWhatRunsAndRefusesWhatComes) {
  start();
  TestClient running(port_), idle(port_);
  running.ask("/stream");
  const auto sink = answerer_.wait_for().sink;
  sink->begin({.status = 200, .content_type = "text/plain", .body = "a"});
  running.until("a\r\n");
  idle.ask("/echo");
  idle.answer();
  server_->drain();
  EXPECT_EQ(idle.rest(), "");  // closed
  const std::string refused = one_answer("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(refused, HasSubstr("connection: close\r\n"));
  sink->write("b");
  sink->end();
  EXPECT_EQ(running.rest(), "1\r\nb\r\n0\r\n\r\n");
  stop();
  EXPECT_EQ(answerer_.cancelled, 0);
}

TEST_F(HttpServerTest, ManyThreadsMayAnswerAtOnce) {
  start();
  constexpr size_t kClients = 50;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->ask(fmt::format("/stream/{}", i));
    answerer_.wait_for(i);
  }
  std::vector<std::thread> writers;
  for (size_t i = 0; i < kClients; ++i) {
    writers.emplace_back([sink = answerer_.wait_for(i).sink, path = answerer_.wait_for(i).request.path] {
      sink->begin({.status = 200, .content_type = "text/plain", .body = {}});
      for (int piece = 0; piece < 100; ++piece) sink->write(path + "\n");
      sink->end();
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (size_t i = 0; i < kClients; ++i) {
    const std::string answer = clients[i]->until("0\r\n\r\n");
    const std::string line = fmt::format("/stream/{}\n", i);
    size_t lines = 0;
    for (size_t at = answer.find(line); at != std::string::npos; at = answer.find(line, at + 1)) ++lines;
    EXPECT_EQ(lines, 100U) << i;
  }
}

}  // namespace
}  // namespace ballast::testing
