// The server over real sockets, with an answerer of the test's own.
#include "apps/ballast/server/http_server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "apps/ballast/server/page_files.h"
#include "tests/server/test_client.h"
#include "tests/support/request_fuzz.h"

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

// What a proxy in front might measure differently: the rest would be a request that the proxy has not seen.
TEST_F(HttpServerTest, RequestsWhoseEndIsUnclearAreRefused) {
  start();
  const std::string chunks = "\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  const std::string chunked = "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::string& tail :
       std::vector<std::string>{"Content-Length: 3\r\nTransfer-Encoding: chunked" + chunks,
                                "Transfer-Encoding: chunked\r\nContent-Length: 3" + chunks,
                                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" + chunks,
                                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity" + chunks,
                                "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked" + chunks,
                                "Transfer-Encoding: gzip, chunked" + chunks,
                                "Transfer-Encoding: chunked, identity" + chunks,
                                "Transfer-Encoding: xchunked" + chunks,
                                "Transfer-Encoding : chunked" + chunks,
                                "Transfer-Encoding: \vchunked" + chunks,
                                "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc",
                                "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                                "Content-Length: +3\r\n\r\nabc",
                                "Content-Length: 0x3\r\n\r\nabc",
                                "Content-Length: 3 3\r\n\r\nabc",
                                "Content-Length:\r\n\r\nabc",
                                "Content-Length: 99999999999999999999\r\n\r\nabc",
                                chunked + "-3\r\nabc\r\n0\r\n\r\n",
                                chunked + "+3\r\nabc\r\n0\r\n\r\n",
                                chunked + " 3\r\nabc\r\n0\r\n\r\n",
                                chunked + "3 \r\nabc\r\n0\r\n\r\n",
                                chunked + "0x3\r\nabc\r\n0\r\n\r\n",
                                chunked + "3\nabc\r\n0\r\n\r\n",
                                chunked + "3;a\nb\r\nabc\r\n0\r\n\r\n",
                                chunked + "3\r\nabcXX0\r\n\r\n",
                                chunked + "ffffffffffffffff\r\nabc\r\n0\r\n\r\n",
                                chunked + "10000000000000003\r\nabc\r\n0\r\n\r\n",
                                chunked + "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
                                chunked + "3\r\nabc\r\n0\r\nno colon\r\n\r\n",
                                std::string("X: a\0b\r\nContent-Length: 3\r\n\r\nabc", 32),
                                "X: a\rContent-Length: 3\r\n\r\nabc"}) {
    const std::string answer = one_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + tail);
    EXPECT_THAT(answer,
                ::testing::AnyOf(StartsWith("HTTP/1.1 400 "), StartsWith("HTTP/1.1 413 "), StartsWith("HTTP/1.1 501 ")))
        << tail;
  }
  EXPECT_THAT(one_answer("POST /echo HTTP/1.0\r\n" + chunked + "3\r\nabc\r\n0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, EncodedBodiesAreRefusedAlsoWhenTheHeaderComesTwice) {
  start();
  for (const char* headers : {"Content-Encoding: gzip\r\n", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n",
                              "Content-Encoding: gzip, identity\r\n", "Content-Encoding: br\r\n"}) {
    TestClient client(port_);
    client.ask("/echo", fmt::format("{}Content-Length: 3\r\n", headers), "POST", "abc");
    EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 415 ")) << headers;
  }
}

TEST_F(HttpServerTest, HeadersBehindTheBodyCountToo) {
  start({.gate = {.headers = 10}});
  std::string request =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 9; ++i) request += fmt::format("X{}: 1\r\n", i);
  EXPECT_THAT(one_answer(request + "\r\n"), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, WhatAClientCallsThingsIsShortenedInAnswersAndInTheLog) {
  start();
  const std::string name(5000, 'A');
  EXPECT_LT(one_answer(name + " / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").size(), 1000U);
  EXPECT_LT(one_answer("GET / HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n").size(), 1000U);
  EXPECT_LT(one_answer("GET /" + name + " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://" + name +
                       "\r\nConnection: close\r\n\r\n")
                .size(),
            1000U);
  stop();
  for (std::string rest = log(); !rest.empty(); rest.erase(0, rest.find('\n') + 1)) EXPECT_LT(rest.find('\n'), 400U);
}

TEST_F(HttpServerTest, AClientThatNeverStopsSendingHeadersIsEnded) {
  start({.limits = {.header_time = std::chrono::milliseconds(50)}});
  TestClient client(port_);
  client.say("GET /echo HTTP/1.1\r\nHost: localhost\r\nX: ");
  EXPECT_TRUE(becomes_true([&] { return !client.try_to_say("x") || client.hears_something(); }));
  EXPECT_THAT(client.rest(), ::testing::AnyOf(StartsWith("HTTP/1.1 408 "), ""));
}

TEST_F(HttpServerTest, AFloodOfSilentConnectionsIsTurnedAwayAndOthersAreStillAnswered) {
  start({.limits = {.connections = 8}});
  TestClient before(port_);
  before.ask("/echo");
  EXPECT_THAT(before.answer(), StartsWith("HTTP/1.1 200 "));
  std::vector<std::unique_ptr<TestClient>> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(std::make_unique<TestClient>(port_));
  EXPECT_EQ(flood.back()->rest(), "");  // closed: it came after the limit and those that are told so
  before.ask("/echo");
  EXPECT_THAT(before.answer(), StartsWith("HTTP/1.1 200 "));
  flood.clear();
  EXPECT_TRUE(becomes_true([&] {
    TestClient after(port_);
    after.ask("/echo");
    return after.answer().starts_with("HTTP/1.1 200 ");
  }));
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

TEST_F(HttpServerTest, RequestsDamagedAtRandomHarmNobody) {
  start({.limits = {.header_bytes = 2000, .headers = 20, .body_bytes = 1000}});
  constexpr uint64_t kSeed = 7;
  constexpr int kRounds = 2000;
  const std::string head = " HTTP/1.1\r\nHost: localhost\r\n";
  RequestMutator mutator(
      {{"", "", "POST /echo" + head + "Content-Length: 3\r\n\r\nabc"},
       {"", "", "POST /echo" + head + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n"},
       {"", "", "GET /echo" + head + "\r\nGET /chat.js" + head + "Connection: close\r\n\r\n"},
       {"", "", "POST /wait" + head + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"},
       {"", "", "OPTIONS /" + head + "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n\r\n"},
       {"", "", "GET http://localhost/?q=1 HTTP/1.0\r\nAuthorization: Bearer x\r\n\r\n"}},
      kSeed);
  for (int round = 0; round < kRounds; ++round) {
    const std::string request = mutator.next().body;
    TestClient client(port_);
    client.try_to_say(request);
    client.end_of_sending();
    ASSERT_THAT(client.rest(), ::testing::AnyOf(StartsWith("HTTP/1.1 "), "")) << "round " << round << ": " << request;
  }
  EXPECT_THAT(one_answer("GET /echo" + head + "Connection: close\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
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
