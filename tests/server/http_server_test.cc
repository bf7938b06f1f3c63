// The server over real sockets, with an answerer of the test's own.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/server/http_server_lab.h"

namespace ballast::testing {
namespace {

using namespace ballast::cli;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
