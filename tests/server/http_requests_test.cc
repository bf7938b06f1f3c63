// What is no request, too much of one, or cut and damaged: refused, and nobody else is harmed.
#include <gmock/gmock.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/http_server_lab.h"
#include "tests/support/request_fuzz.h"

namespace ballast::testing {
namespace {

using namespace ballast::cli;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST_F(HttpServerTest, WithoutAKeyNobodyIsListenedToForLong) {
  start({}, "alice:0123456789abcdef");
  const std::string chunk = "1400\r\n" + std::string(0x1400, 'x') + "\r\n";
  for (const char* request : {"OPTIONS /x", "OPTIONS /v1/chat/completions", "POST /health", "GET /health",
                              "HEAD /health", "DELETE /health"}) {
    const std::string head = fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n", request);
    EXPECT_THAT(one_answer(head + "Content-Length: 16777216\r\n\r\n"), StartsWith("HTTP/1.1 413 ")) << request;
    EXPECT_THAT(one_answer(head + "Transfer-Encoding: chunked\r\n\r\n" + chunk), StartsWith("HTTP/1.1 413 "))
        << request;
  }
  const std::string key = "Authorization: Bearer 0123456789abcdef\r\n";
  TestClient client(port_);
  client.ask("/echo", key + "Content-Length: 16777216\r\n");
  EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 413 "));
  TestClient other(port_);
  other.ask("/echo", key + "Content-Length: 8000\r\n", "POST", std::string(8000, 'x'));
  EXPECT_THAT(other.answer(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, ConnectionsThatRestHoldNothingOfTheirRequests) {
  start();
  const std::string header = "X: " + std::string(30'000, 'x') + "\r\n";
  constexpr size_t kResting = 128;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < kResting; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->ask("/echo");
    EXPECT_THAT(clients.back()->answer(), StartsWith("HTTP/1.1 200 "));
  }
  const size_t before = ::mallinfo2().uordblks;  // 0 under a sanitizer
  for (const auto& client : clients) {
    client->ask("/echo", header);
    EXPECT_THAT(client->answer(), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_LT(::mallinfo2().uordblks, before + kResting * 8'000);
}

TEST_F(HttpServerTest, OneAddressCannotTakeAllConnections) {
  host_ = "0.0.0.0";
  start({.limits = {.connections = 100, .per_address = 3}});
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<TestClient>(port_));
  const auto status = [&] {
    TestClient client(port_);
    client.ask("/echo", "Connection: close\r\n");
    return client.rest().substr(0, 13);
  };
  EXPECT_EQ(status(), "HTTP/1.1 503 ");
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<TestClient>(port_));
  EXPECT_EQ(status(), "");  // enough of them were told
  silent.clear();
  EXPECT_TRUE(becomes_true([&] { return status() == "HTTP/1.1 200 "; }));
}

TEST_F(HttpServerTest, ConnectionsOfThisMachineAloneAreNotCountedByAddress) {
  start({.limits = {.per_address = 1}});
  const TestClient silent(port_), other(port_);
  EXPECT_THAT(one_answer("GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AnthropicsClientsFindTheIdOfTheirRequest) {
  start({}, "alice:0123456789abcdef");
  for (const char* path : {"/v1/messages", "/messages"}) {
    TestClient client(port_);
    client.ask(path, "Connection: close\r\n", "POST");
    EXPECT_THAT(client.rest(), HasSubstr("\r\nrequest-id: req_")) << path;
  }
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

TEST_F(HttpServerTest, AFewEmptyLinesBeforeARequestAreSkippedAndMoreEndTheConnection) {
  start();
  const std::string request = "GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(one_answer("\r\n\r\n\r\n\r\n" + request), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(one_answer("\r\n\r\n\r\n\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  TestClient slow(port_);  // one at a time, and then no request
  for (int i = 0; i < 5; ++i) slow.say("\r\n");
  EXPECT_THAT(slow.rest(), StartsWith("HTTP/1.1 400 "));
  TestClient again(port_);  // each request may have a few
  for (int i = 0; i < 3; ++i) {
    again.say("\r\n\r\n\r\n\r\n");
    again.ask("/echo");
    EXPECT_THAT(again.answer(), StartsWith("HTTP/1.1 200 "));
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

}  // namespace
}  // namespace ballast::testing
