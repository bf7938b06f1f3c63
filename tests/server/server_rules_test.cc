// Who may use the server: hosts, origins, keys, and what is refused by a request's head alone.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "apps/ballast/server/address_places.h"
#include "apps/ballast/server/answer_text.h"
#include "apps/ballast/server/api_keys.h"
#include "apps/ballast/server/error_answer.h"
#include "apps/ballast/server/gate.h"
#include "apps/ballast/server/host_name.h"
#include "apps/ballast/server/listen_address.h"
#include "apps/ballast/server/request_head.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using namespace ballast::cli;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

RequestHead plain_head(std::string method = "GET", std::string target = "/v1/models") {
  RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.host = "localhost:8080";
  head.hosts = head.headers = 1;
  return head;
}

// 0: let in.
int status_at(const Gate& gate, const RequestHead& head, HostRule rule = HostRule::kLoopback) {
  Admission admission;
  const auto refusal = gate.check(head, rule, admission);
  return refusal ? refusal->status : 0;
}

ApiKeys keys_of(std::string_view text) {
  auto keys = ApiKeys::parse(text, "keys");
  EXPECT_TRUE(keys) << keys.error().message;
  return keys ? *keys : ApiKeys();
}

// ---------------------------------------------------------------- hosts

TEST(ServerHosts, AreReadWithAndWithoutAPort) {
  EXPECT_EQ(parse_host("LocalHost:80")->host, "localhost");
  EXPECT_EQ(parse_host("localhost:80")->port, "80");
  EXPECT_EQ(parse_host("[::1]:8080")->host, "::1");
  EXPECT_EQ(parse_host("[::1]")->port, "");
  EXPECT_EQ(parse_host("example.org.")->host, "example.org");
  for (const char* text : {"", ":80", "a b", "a/b", "a:b", "a:", "[::1", "[x]:80", "::1", "a:123456", "a@b", "a\x80"})
    EXPECT_FALSE(parse_host(text)) << text;
  EXPECT_FALSE(parse_host(std::string(300, 'a')));
}

TEST(ServerHosts, OnlyNamesThatNobodyElseCanPointHereAreLoopback) {
  for (const char* host : {"localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.1", "0.0.0.0", "10.0.0.1"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(ServerHosts, ALoopbackServerRefusesANameThatWasReboundToIt) {
  const Gate gate({.hosts = {"chat.example"}});
  RequestHead head = plain_head();
  EXPECT_EQ(status_at(gate, head), 0);
  for (const char* host : {"127.0.0.1:8080", "[::1]:8080", "localhost", "chat.example:1"}) {
    head.host = host;
    EXPECT_EQ(status_at(gate, head), 0) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "10.0.0.1", "0.0.0.0:8080"}) {
    head.host = host;
    EXPECT_EQ(status_at(gate, head), 403) << host;
    head.target = "/health";  // on every route
    EXPECT_EQ(status_at(gate, head), 403) << host;
    head.target = "/v1/models";
  }
  head.host = "10.0.0.1";
  EXPECT_EQ(status_at(gate, head, HostRule::kAddresses), 0);
  head.host = "evil.example";
  EXPECT_EQ(status_at(gate, head, HostRule::kAddresses), 403);
  EXPECT_EQ(status_at(gate, head, HostRule::kAny), 0);
}

TEST(ServerHosts, AWholeUrlCountsInsteadOfTheHeader) {
  const Gate gate(GateOptions{});
  EXPECT_EQ(status_at(gate, plain_head("GET", "http://localhost/v1/models")), 0);
  EXPECT_EQ(status_at(gate, plain_head("GET", "http://evil.example/v1/models")), 403);
  EXPECT_EQ(status_at(gate, plain_head("GET", "https://localhost/")), 400);
  EXPECT_EQ(status_at(gate, plain_head("GET", "v1/models")), 400);
}

TEST(ServerHosts, MissingTwiceOrNoneIsABadRequest) {
  const Gate gate(GateOptions{});
  RequestHead head = plain_head();
  head.hosts = 2;
  EXPECT_EQ(status_at(gate, head), 400);
  head.hosts = 0;
  head.host.reset();
  EXPECT_EQ(status_at(gate, head), 400);
  head.is_http_1_0 = true;
  EXPECT_EQ(status_at(gate, head), 0);
  head = plain_head();
  head.host = "not a host";
  EXPECT_EQ(status_at(gate, head), 400);
}

TEST(ServerTargets, LoseWhatFollowsAQuestionMark) {
  EXPECT_EQ(split_target("/a/b?c=d")->path, "/a/b");
  EXPECT_EQ(split_target("http://h:1?x")->path, "/");
  EXPECT_EQ(*split_target("HTTP://h:1/x")->host, "h:1");
  EXPECT_EQ(split_target("*")->path, "*");
  EXPECT_FALSE(split_target(""));
  EXPECT_FALSE(split_target("ftp://h/x"));
}

std::string group_of_address(const char* text) {
  sockaddr_storage storage = {};
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET6, text, &six.sin6_addr) == 1) std::memcpy(&storage, &six, sizeof six);
  else if (::inet_pton(AF_INET, text, &four.sin_addr) == 1) std::memcpy(&storage, &four, sizeof four);
  return address_group(storage);
}

TEST(ServerAddresses, OfOneNetworkOfIpv6AreOneClient) {
  EXPECT_EQ(group_of_address("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(group_of_address("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(group_of_address("2001:db8:1:2:3:4:5:6"), group_of_address("2001:db8:1:2::9"));
  EXPECT_NE(group_of_address("2001:db8:1:2::9"), group_of_address("2001:db8:1:3::9"));
  EXPECT_EQ(group_of_address("no address"), "");
}

// ---------------------------------------------------------------- origins

TEST(ServerOrigins, OfTheServerItselfAreTheSameWithEitherScheme) {
  EXPECT_TRUE(is_same_origin("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(is_same_origin("https://chat.example", "chat.example"));
  EXPECT_TRUE(is_same_origin("https://chat.example", "chat.example:443"));
  EXPECT_FALSE(is_same_origin("http://localhost:3000", "localhost:8080"));
  EXPECT_FALSE(is_same_origin("http://evil.example", "localhost"));
  EXPECT_FALSE(is_same_origin("null", "localhost"));
  EXPECT_FALSE(is_same_origin("file://", "localhost"));
}

TEST(ServerOrigins, OfOthersAreRefusedUnlessTheyAreListed) {
  RequestHead head = plain_head("POST", "/v1/chat/completions");
  head.content_type = "application/json; charset=utf-8";
  head.origin = "https://chat.example";
  EXPECT_EQ(status_at(Gate(GateOptions{}), head), 403);
  EXPECT_EQ(status_at(Gate({.origins = {"https://chat.example"}}), head), 0);
  EXPECT_EQ(status_at(Gate({.origins = {"https://chat.example:8443"}}), head), 403);
  EXPECT_EQ(status_at(Gate({.origins = {"*"}}), head), 0);
  head.origin = "null";
  EXPECT_EQ(status_at(Gate({.origins = {"https://chat.example"}}), head), 403);
  head.origin = "http://localhost:8080";
  EXPECT_EQ(status_at(Gate(GateOptions{}), head), 0);
}

TEST(ServerOrigins, APageMustPostJson) {
  const Gate gate(GateOptions{});
  RequestHead head = plain_head("POST", "/v1/chat/completions");
  head.content_type = "text/plain";
  EXPECT_EQ(status_at(gate, head), 0);  // curl -d, without a page
  head.origin = "http://localhost:8080";
  EXPECT_EQ(status_at(gate, head), 415);
  head.content_type.reset();
  EXPECT_EQ(status_at(gate, head), 415);
}

TEST(ServerOrigins, APreflightNamesOnlyWhatClientsSend) {
  const Gate gate({.origins = {"https://chat.example"}});
  RequestHead head = plain_head("OPTIONS", "/v1/chat/completions");
  head.origin = "https://chat.example";
  head.requested_method = "POST";
  head.requested_headers = "Authorization, content-type,x-stainless-lang , x-evil";
  Admission admission;
  ASSERT_FALSE(gate.check(head, HostRule::kLoopback, admission));
  ASSERT_TRUE(admission.answer);
  EXPECT_EQ(admission.answer->status, 204);
  const std::vector<std::pair<std::string, std::string>>& headers = admission.answer->headers;
  EXPECT_THAT(headers, ::testing::Contains(std::pair<std::string, std::string>(
                           "access-control-allow-headers", "Authorization, content-type, x-stainless-lang")));
  EXPECT_EQ(admission.origin, "https://chat.example");
}

// ---------------------------------------------------------------- keys

TEST(ServerKeys, AreFoundByTheirNames) {
  const ApiKeys keys = keys_of("# ours\n\nalice: sk-alice-0123456789\nsk-nameless-0123456\r\n");
  EXPECT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys.find("sk-alice-0123456789"), "alice");
  EXPECT_EQ(keys.find("sk-nameless-0123456"), "key 2");
  for (const char* key : {"", "alice", "sk-alice-012345678", "sk-alice-01234567890", "SK-ALICE-0123456789"})
    EXPECT_FALSE(keys.find(key)) << key;
}

TEST(ServerKeys, ThatCannotBeMeantAreRefusedWithoutQuotingThem) {
  for (const char* text : {"", "# none\n", "alice:", ":secret", "alice:sec ret", "a:sécret", "a:secret1\na:secret2"}) {
    const auto keys = ApiKeys::parse(text, "keys.txt");
    ASSERT_FALSE(keys) << text;
    EXPECT_THAT(keys.error().message, StartsWith("keys.txt: "));
    EXPECT_THAT(keys.error().message, Not(HasSubstr("secret")));
  }
  EXPECT_THAT(keys_of("a:short\n").short_names(), ::testing::ElementsAre("a"));
}

TEST(ServerKeys, GuardEverythingButWhatIsOpen) {
  Gate gate(GateOptions{});
  gate.set_keys(keys_of("alice:sk-alice-0123456789"));
  RequestHead head = plain_head("POST", "/v1/chat/completions");
  EXPECT_EQ(status_at(gate, head), 401);
  for (const char* path : {"/", "/metrics", "/props", "/api/tags", "/v1/messages", "/tokenize", "//health", "/health/"})
    EXPECT_EQ(status_at(gate, plain_head("GET", path)), 401) << path;
  EXPECT_EQ(status_at(gate, plain_head("GET", "/health")), 0);
  head.authorization = "Bearer wrong";
  EXPECT_EQ(status_at(gate, head), 401);
  head.authorization = "Basic sk-alice-0123456789";
  EXPECT_EQ(status_at(gate, head), 401);
  head.authorization = "bearer sk-alice-0123456789";
  Admission admission;
  EXPECT_FALSE(gate.check(head, HostRule::kLoopback, admission));
  EXPECT_EQ(admission.key, "alice");
  head.authorization.reset();
  head.api_key = "sk-alice-0123456789";
  EXPECT_EQ(status_at(gate, head), 0);
}

TEST(ServerKeys, OfNoServerAreIgnored) {
  RequestHead head = plain_head();
  head.authorization = "Bearer anything";
  EXPECT_EQ(status_at(Gate(GateOptions{}), head), 0);
}

TEST(ServerKeys, OfAFileThatOthersCanReadAreNoticed) {
  const TempFolder folder;
  const std::string path = folder.write("keys", "alice:sk-alice-0123456789\n");
  ::chmod(path.c_str(), 0600);
  EXPECT_FALSE(is_readable_by_others(path));
  ::chmod(path.c_str(), 0640);
  EXPECT_TRUE(is_readable_by_others(path));
  EXPECT_EQ(read_api_keys(path)->size(), 1U);
  EXPECT_EQ(read_api_keys(folder.path("missing")).error().code, ErrorCode::kNotFound);
}

// ---------------------------------------------------------------- what bodies may not be

TEST(ServerErrors, OfAnthropicsInterfaceHaveItsShapeWithAndWithoutAVersion) {
  const Refusal refusal{401, "authentication_error", "missing_api_key", "a key"};
  for (const char* path : {"/v1/messages", "/messages", "/messages/count_tokens"})
    EXPECT_THAT(error_answer(refusal, path).body, StartsWith(R"({"type":"error","error":{)")) << path;
  EXPECT_THAT(error_answer(refusal, "/v1/models").body, StartsWith(R"({"error":{"message")"));
  EXPECT_EQ(error_answer(refusal, "/api/chat").body, R"({"error":"a key"})");
}

TEST(ServerBodies, AreForRequestsThatNeedOne) {
  const Gate gate({.open_paths = {"/health", "/"}});
  RequestHead head = plain_head("POST", "/v1/chat/completions");
  head.content_length = uint64_t{1} << 30U;  // the parser has a limit of its own
  EXPECT_EQ(status_at(gate, head), 0);
  for (const auto& [method, path] : std::vector<std::pair<std::string, std::string>>{
           {"OPTIONS", "/v1/chat/completions"}, {"POST", "/health"}, {"POST", "/"}, {"GET", "/v1/models"}}) {
    RequestHead other = plain_head(method, path);
    other.content_length = 4097;
    EXPECT_EQ(status_at(gate, other), 413) << method << " " << path;
    other.content_length = 2;
    EXPECT_EQ(status_at(gate, other), 0) << method << " " << path;
  }
}

TEST(ServerBodies, OfAPreflightAreNoExceptions) {
  RequestHead head = plain_head("OPTIONS");
  head.transfer_encoding = "gzip, chunked";
  EXPECT_EQ(status_at(Gate(GateOptions{}), head), 501);
}

TEST(ServerBodies, ThatAreEncodedAreRefusedByTheHead) {
  const Gate gate(GateOptions{});
  RequestHead head = plain_head("POST", "/v1/completions");
  head.content_encoding = "gzip";  // bombs
  EXPECT_EQ(status_at(gate, head), 415);
  head.content_encoding = "identity";
  EXPECT_EQ(status_at(gate, head), 0);
  head.transfer_encoding = "gzip, chunked";
  EXPECT_EQ(status_at(gate, head), 501);
  head.transfer_encoding = "Chunked";
  EXPECT_EQ(status_at(gate, head), 0);
  head.expect = "a miracle";
  EXPECT_EQ(status_at(gate, head), 417);
}

TEST(ServerHosts, MustNameThePortWhereItIsKnown) {
  const Gate gate({.port = 4321, .has_flags = false});
  RequestHead head = plain_head();
  for (const char* host : {"localhost:4321", "127.0.0.1:4321", "[::1]:4321"}) {
    head.host = host;
    EXPECT_EQ(status_at(gate, head), 0) << host;
  }
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:43210", "evil.example:4321"}) {
    head.host = host;
    EXPECT_EQ(status_at(gate, head), 403) << host;
  }
  const Gate web({.port = 80});
  head.host = "localhost";
  EXPECT_EQ(status_at(web, head), 0);
}

TEST(ServerHosts, AreNotToldOfFlagsThatTheProgramLacks) {
  RequestHead head = plain_head();
  head.host = "evil.example";
  Admission admission;
  EXPECT_THAT(Gate({}).check(head, HostRule::kLoopback, admission)->message, HasSubstr("--allow-host evil.example"));
  EXPECT_THAT(Gate({.has_flags = false}).check(head, HostRule::kLoopback, admission)->message, Not(HasSubstr("--")));
  head = plain_head();
  head.origin = "https://evil.example";
  EXPECT_THAT(Gate({}).check(head, HostRule::kLoopback, admission)->message, HasSubstr("--cors https://evil.example"));
  EXPECT_THAT(Gate({.has_flags = false}).check(head, HostRule::kLoopback, admission)->message, Not(HasSubstr("--")));
}

TEST(ServerMethods, AreThoseOfTheProgram) {
  const Gate gate({.methods = {"GET", "HEAD"}});
  EXPECT_EQ(status_at(gate, plain_head("HEAD")), 0);
  for (const char* method : {"POST", "DELETE", "OPTIONS"}) {
    Admission admission;
    const auto refusal = gate.check(plain_head(method), HostRule::kLoopback, admission);
    ASSERT_TRUE(refusal) << method;
    EXPECT_EQ(refusal->status, 405);
    EXPECT_THAT(error_answer(*refusal, "/").headers,
                ::testing::Contains(std::pair<std::string, std::string>("allow", "GET, HEAD")));
  }
}

TEST(ServerMethods, ThatAreNotKnownAreRefused) {
  for (const char* method : {"TRACE", "CONNECT", "PUT", "PATCH", "BREW"})
    EXPECT_EQ(status_at(Gate(GateOptions{}), plain_head(method)), 405) << method;
  RequestHead head = plain_head();
  head.headers = 101;
  EXPECT_EQ(status_at(Gate(GateOptions{}), head), 431);
}

// ---------------------------------------------------------------- answers

TEST(ServerAnswers, HaveTheHeadersThatKeepBrowsersInCheck) {
  const std::string text = head_text({.status = 200, .content_type = "application/json", .body = "{}"},
                                     {.framing = Framing::kLength, .keep_alive = true, .request_id = "req_1"});
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const char* header :
       {"content-length: 2", "content-type: application/json", "connection: keep-alive", "x-request-id: req_1",
        "x-content-type-options: nosniff", "cache-control: no-store", "content-security-policy: default-src 'none'"})
    EXPECT_THAT(text, HasSubstr(fmt::format("\r\n{}", header)));
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("access-control")));
}

TEST(ServerAnswers, NeverHaveAHeaderThatBreaksTheLine) {
  const std::string text = head_text(
      {.status = 299, .content_type = {}, .body = {}, .headers = {{"x-a", "1\r\nset-cookie: 2"}, {"x-b", "3"}}}, {});
  EXPECT_THAT(text, Not(HasSubstr("set-cookie")));
  EXPECT_THAT(text, HasSubstr("\r\nx-b: 3\r\n"));
}

TEST(ServerAnswers, InPiecesEndWithAnEmptyChunkAndHaveNoneBefore) {
  EXPECT_EQ(piece_text("hello", Framing::kChunks), "5\r\nhello\r\n");
  EXPECT_EQ(piece_text("", Framing::kChunks), "");
  EXPECT_EQ(piece_text("hello", Framing::kClosing), "hello");
  EXPECT_EQ(end_text(Framing::kChunks), "0\r\n\r\n");
  EXPECT_EQ(end_text(Framing::kClosing), "");
}

TEST(ServerAnswers, OfErrorsHaveTheShapeOfTheInterface) {
  const Refusal refusal{401, "authentication_error", "missing_api_key", "a \"key\""};
  EXPECT_EQ(error_answer(refusal, "/v1/models").body,
            R"({"error":{"message":"a \"key\"","type":"authentication_error","param":null,"code":"missing_api_key"}})");
  EXPECT_EQ(error_answer(refusal, "/api/chat").body, R"({"error":"a \"key\""})");
  EXPECT_EQ(error_answer(refusal, "/v1/messages").body,
            R"({"type":"error","error":{"type":"authentication_error","message":"a \"key\""}})");
}

// ---------------------------------------------------------------- addresses

TEST(ServerAddresses, AreReadInEveryForm) {
  EXPECT_EQ(parse_listen_address("9000")->host, "127.0.0.1");
  EXPECT_EQ(parse_listen_address("9000")->port, 9000);
  EXPECT_EQ(parse_listen_address("localhost:1")->host, "localhost");
  EXPECT_EQ(parse_listen_address("[::1]:0")->host, "::1");
  EXPECT_EQ(parse_listen_address("unix:/run/b.sock")->socket_path, "/run/b.sock");
  for (const char* text : {"", "localhost", "a:b", "a:65536", "a:-1", ":8080", "::1:80", "http://a:80"})
    EXPECT_FALSE(parse_listen_address(text)) << text;
}

TEST(ServerAddresses, ThatAreNoneAreNamedWithTheFormsThatAreAllowed) {
  for (const char* text : {"", "nonsense", "localhost:"}) {
    EXPECT_THAT(parse_listen_address(text).error().message,
                AllOf(StartsWith(fmt::format("--listen \"{}\" is not an address: write HOST:PORT", text)),
                      HasSubstr("unix:PATH")));
  }
  EXPECT_THAT(parse_listen_address("70000").error().message,
              StartsWith("--listen 70000: \"70000\" is not a port between 0 and 65535; write HOST:PORT"));
}

TEST(ServerAddresses, OfALoopbackAreKnownToBeThat) {
  auto listeners = open_listeners({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(listeners) << listeners.error().message;
  ASSERT_EQ(listeners->size(), 1U);
  EXPECT_TRUE(listeners->front().is_loopback);
  EXPECT_THAT(listeners->front().name, StartsWith("http://127.0.0.1:"));
  auto everywhere = open_listeners({.host = "0.0.0.0", .port = 0});
  ASSERT_TRUE(everywhere) << everywhere.error().message;
  EXPECT_FALSE(everywhere->front().is_loopback);
  for (Listener& listener : *listeners) close_listener(listener);
  for (Listener& listener : *everywhere) close_listener(listener);
}

TEST(ServerAddresses, OfASocketFileReplaceOneThatIsLeftOverAndNothingElse) {
  const TempFolder folder;
  const ListenAddress address{.socket_path = folder.path("b.sock")};
  auto first = open_listeners(address);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->front().is_unix);
  const std::string in_use = open_listeners(address).error().message;
  EXPECT_THAT(in_use, HasSubstr("listens on this path: choose another one"));
  EXPECT_THAT(in_use, Not(HasSubstr("port")));
  first->front().socket_path.clear();  // as if the program had been killed
  close_listener(first->front());
  auto second = open_listeners(address);
  ASSERT_TRUE(second) << second.error().message;
  close_listener(second->front());
  EXPECT_FALSE(std::filesystem::exists(address.socket_path));
  folder.write("b.sock", "a file of somebody's");
  EXPECT_EQ(open_listeners(address).error().code, ErrorCode::kExists);
}

}  // namespace
}  // namespace ballast::testing
