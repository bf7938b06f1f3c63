// What `ballast lens` serves: the page, a list of files, and ranges of them.
#include "apps/ballast/server/lens_site.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/ballast/server/byte_range.h"
#include "apps/ballast/server/secret.h"
#include "ballast/base/json.h"
#include "tests/server/http_server_lab.h"
#include "tests/support/places.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using namespace ballast::cli;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// ---------------------------------------------------------------- ranges

// "first+size" of a part, "whole" or "refused".
std::string range_of(std::string_view header, uint64_t size = 100) {
  const ByteRange range = read_byte_range(header, size);
  if (range.kind == ByteRange::Kind::kWhole) return "whole";
  if (range.kind == ByteRange::Kind::kRefused) return "refused";
  return fmt::format("{}+{}", range.first, range.size);
}

TEST(LensRanges, OfOnePartAreRead) {
  EXPECT_EQ(range_of("bytes=0-0"), "0+1");
  EXPECT_EQ(range_of("bytes=10-19"), "10+10");
  EXPECT_EQ(range_of("Bytes= 10-19 "), "10+10");
  EXPECT_EQ(range_of("bytes=90-"), "90+10");
  EXPECT_EQ(range_of("bytes=-10"), "90+10");
  EXPECT_EQ(range_of("bytes=99-99"), "99+1");
  EXPECT_EQ(range_of("bytes=5000000000-5000000009", 6'000'000'000), "5000000000+10");
}

TEST(LensRanges, ThatReachBeyondTheEndStopThere) {
  EXPECT_EQ(range_of("bytes=90-200"), "90+10");
  EXPECT_EQ(range_of("bytes=-200"), "0+100");
  EXPECT_EQ(range_of("bytes=0-99999999999999999999999999"), "0+100");
  EXPECT_EQ(range_of("bytes=-99999999999999999999999999"), "0+100");
}

TEST(LensRanges, WithoutAByteOfTheFileAreRefused) {
  for (const char* header : {"bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999999-"})
    EXPECT_EQ(range_of(header), "refused") << header;
  for (const char* header : {"bytes=0-", "bytes=0-0", "bytes=-1"}) EXPECT_EQ(range_of(header, 0), "refused") << header;
}

TEST(LensRanges, ThatAreNotUnderstoodDoNotSendTheWholeFile) {
  for (const char* header : {"bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=5-4", "bytes=0-1,5-6", "bytes=+1-2",
                             "bytes=1--2", "bytes=0x1-2", "bytes=1- 2", "bytes 0-1"})
    EXPECT_EQ(range_of(header), "refused") << header;
}

TEST(LensRanges, OfUnitsThatAreNotKnownAndNoneAtAllMeanTheWholeFile) {
  EXPECT_EQ(range_of(""), "whole");
  EXPECT_EQ(range_of("tensors=0-1"), "whole");
}

// ---------------------------------------------------------------- secrets

TEST(LensSecrets, HaveHundredAndTwentyEightBitsAndDiffer) {
  const auto one = make_secret(), other = make_secret();
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->size(), 32);
  EXPECT_EQ(one->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(*one, *other);
  EXPECT_TRUE(is_secret(*one, *one));
  for (const std::string& wrong : {*other, one->substr(1), *one + "0", std::string()})
    EXPECT_FALSE(is_secret(wrong, *one));
}

// ---------------------------------------------------------------- which files

std::vector<std::string> names_of(const Result<LensFiles>& found) {
  std::vector<std::string> names;
  EXPECT_TRUE(found) << found.error().message;
  if (found) {
    for (const LensFile& file : found->files) names.push_back(file.name);
  }
  return names;
}

TEST(LensFilesFound, OfAFolderAreThoseInsideButHiddenOnes) {
  const TempFolder folder;
  fs::create_directories(folder.path("sub/deep"));
  fs::create_directories(folder.path(".git"));
  folder.write("b.gguf", "b");
  folder.write("a.json", "a");
  folder.write("sub/deep/c.npz", "c");
  folder.write(".git/config", "x");
  folder.write("sub/.secret", "x");
  EXPECT_THAT(names_of(find_lens_files({folder.path()})), ElementsAre("a.json", "b.gguf", "sub/deep/c.npz"));
}

TEST(LensFilesFound, LeadNowhereOutsideTheFolder) {
  const TempFolder outside, folder;
  outside.write("secret", "s");
  folder.write("real", "r");
  fs::create_symlink(outside.path("secret"), folder.path("out"));
  fs::create_symlink("../" + fs::path(outside.path()).filename().string() + "/secret", folder.path("out2"));
  fs::create_directory_symlink(outside.path(), folder.path("outside"));
  fs::create_symlink("real", folder.path("in"));
  fs::create_symlink("nothing", folder.path("broken"));
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  const auto found = find_lens_files({folder.path()});
  EXPECT_THAT(names_of(found), ElementsAre("in", "real"));
  EXPECT_EQ(found->links_left_out, 2);
}

TEST(LensFilesFound, OfASnapshotMayLeadToTheBlobsOfItsCache) {
  const TempFolder cache;
  fs::create_directories(cache.path("snapshots/abc"));
  fs::create_directories(cache.path("blobs"));
  cache.write("blobs/123", "weights");
  cache.write("other", "x");
  fs::create_symlink("../../blobs/123", cache.path("snapshots/abc/model.gguf"));
  fs::create_symlink("../../other", cache.path("snapshots/abc/other"));
  const auto found = find_lens_files({cache.path("snapshots/abc")});
  EXPECT_THAT(names_of(found), ElementsAre("model.gguf"));
  EXPECT_EQ(found->links_left_out, 1);
}

TEST(LensFilesFound, OfAnIndexAreItsShards) {
  const std::string index = test_data_folder() + "/hf/llama_sharded/model.safetensors.index.json";
  EXPECT_THAT(names_of(find_lens_files({index})),
              ElementsAre("model.safetensors.index.json", "model-00001-of-00005.safetensors",
                          "model-00002-of-00005.safetensors", "model-00003-of-00005.safetensors",
                          "model-00004-of-00005.safetensors", "model-00005-of-00005.safetensors"));
}

TEST(LensFilesFound, OfTheSameNameAreToldApart) {
  const TempFolder folder;
  fs::create_directories(folder.path("a"));
  fs::create_directories(folder.path("b"));
  const std::string a = folder.write("a/m.gguf", "1"), b = folder.write("b/m.gguf", "2");
  EXPECT_THAT(names_of(find_lens_files({a, b, a})), ElementsAre("m.gguf", b));
}

TEST(LensFilesFound, AreNotThereWithoutAnError) {
  const TempFolder folder;
  EXPECT_EQ(find_lens_files({folder.path("none")}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(find_lens_files({folder.path()}).error().message, HasSubstr("no files"));
  EXPECT_TRUE(names_of(find_lens_files({})).empty());
}

// ---------------------------------------------------------------- over sockets

constexpr std::string_view kHtml = "<!doctype html><head><title>t</title></head>";
constexpr std::string_view kScript = "1;";
std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

class LensSiteTest : public HttpServerTest {
 protected:
  void serve(const std::vector<std::string>& paths, std::string ticket = {}) {
    auto found = find_lens_files(paths);
    ASSERT_TRUE(found) << found.error().message;
    pages_ = {{"/", "text/html; charset=utf-8", "\"abc\"", bytes_of(kHtml)},
              {"/assets/app.js", "text/javascript; charset=utf-8", "\"def\"", bytes_of(kScript)}};
    ServerOptions options;
    options.gate = {.methods = {"GET", "HEAD"}, .has_flags = false};
    options.site = make_lens_site({.page = pages_,
                                   .secret = std::string(kSecret),
                                   .ticket = std::move(ticket),
                                   .files = std::move(found->files),
                                   .complain = [this](std::string_view text) {
                                     const std::lock_guard lock(mutex_);
                                     complaints_ += text;
                                   }});
    answerer_.knows_nothing = true;
    start(std::move(options));
  }
  std::string ask(std::string_view path, std::string_view more = "", std::string_view method = "GET") {
    return one_answer(
        fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", method, path, more));
  }
  std::string below(std::string_view path, std::string_view more = "", std::string_view method = "GET") {
    return ask(fmt::format("/{}/{}", kSecret, path), more, method);
  }
  // The address of the n-th file, as the list tells it now.
  std::string url(size_t number = 0) {
    const std::string list = below("files.json");
    size_t at = 0;
    for (size_t i = 0; i <= number; ++i) at = list.find("\"url\":\"", at) + 7;
    return list.substr(at, list.find('"', at) - at);
  }
  std::string complaints() {
    const std::lock_guard lock(mutex_);
    return complaints_;
  }
  static std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  static constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";
  std::vector<PageFile> pages_;
  std::string complaints_;
  TempFolder folder_;
};

TEST_F(LensSiteTest, ThePageIsToldOfTheListAlsoWhereItIsEmpty) {
  serve({folder_.write("a", "abc")});
  const std::string page = below("");
  EXPECT_TRUE(page.ends_with("<head><meta name=\"ballast-files\" content=\"files.json\"><title>t</title></head>"))
      << page;
  EXPECT_THAT(page, AllOf(HasSubstr("script-src 'self' 'wasm-unsafe-eval'"), HasSubstr("default-src 'none'"),
                          HasSubstr("cross-origin-opener-policy: same-origin\r\n"),
                          HasSubstr("cross-origin-resource-policy: same-origin\r\n"),
                          HasSubstr("referrer-policy: no-referrer\r\n"),
                          HasSubstr("x-content-type-options: nosniff\r\n"), Not(HasSubstr("access-control"))));
  EXPECT_THAT(below("", "If-None-Match: \"abc\"\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(below("", "If-None-Match: \"files-abc\"\r\n"), StartsWith("HTTP/1.1 304 "));
  EXPECT_EQ(body_of(below("assets/app.js")), kScript);
  stop();
  serve({});
  EXPECT_EQ(body_of(below("")), body_of(page));
  EXPECT_EQ(body_of(below("files.json")), R"({"files":[]})");
}

TEST_F(LensSiteTest, FilesAreListedAndReadWholeAndInParts) {
  serve({folder_.write("digits", "0123456789"), folder_.write("empty", "")});
  const std::string list = body_of(below("files.json"));
  EXPECT_THAT(list, AllOf(StartsWith(R"({"files":[{"name":"digits","size":10,"url":"files/0/)"),
                          HasSubstr(R"({"name":"empty","size":0,"url":"files/1/)")));
  EXPECT_EQ(body_of(below(url())), "0123456789");
  const std::string part = below(url(), "Range: bytes=2-4\r\n");
  EXPECT_THAT(part, AllOf(StartsWith("HTTP/1.1 206 Partial Content\r\n"), HasSubstr("content-range: bytes 2-4/10\r\n"),
                          HasSubstr("content-length: 3\r\n"), HasSubstr("accept-ranges: bytes\r\n"),
                          HasSubstr("cache-control: no-store\r\n"), HasSubstr("etag: \"")));
  EXPECT_EQ(body_of(part), "234");
  EXPECT_THAT(below(url(), "Range: bytes=10-\r\n"),
              AllOf(StartsWith("HTTP/1.1 416 "), HasSubstr("content-range: bytes */10\r\n")));
  EXPECT_THAT(below(url(), "Range: bytes=0-1\r\nRange: bytes=3-4\r\n"), StartsWith("HTTP/1.1 416 "));
  const std::string empty = below(url(1));
  EXPECT_THAT(empty, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("content-length: 0\r\n")));
}

TEST_F(LensSiteTest, HeadHasTheLengthAndNoBody) {
  serve({folder_.write("digits", "0123456789")});
  const std::string whole = below(url(), "", "HEAD"), part = below(url(), "Range: bytes=-4\r\n", "HEAD");
  EXPECT_THAT(whole, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("content-length: 10\r\n")));
  EXPECT_THAT(part, AllOf(StartsWith("HTTP/1.1 206 "), HasSubstr("content-length: 4\r\n")));
  EXPECT_EQ(body_of(whole) + body_of(part), "");
}

TEST_F(LensSiteTest, APartOfAnotherStateIsTheWholeFile) {
  serve({folder_.write("digits", "0123456789")});
  const std::string answer = below(url(), "", "HEAD");
  const std::string etag =
      answer.substr(answer.find("etag: ") + 6, answer.find("\r\n", answer.find("etag: ")) - answer.find("etag: ") - 6);
  const auto with = [&](std::string_view value) {
    return below(url(), fmt::format("Range: bytes=0-1\r\nIf-Range: {}\r\n", value));
  };
  EXPECT_THAT(with(etag), StartsWith("HTTP/1.1 206 "));
  EXPECT_THAT(with("\"other\""), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(with("Wed, 21 Oct 2026 07:28:00 GMT"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(below(url(), fmt::format("If-None-Match: {}\r\n", etag)), StartsWith("HTTP/1.1 304 "));
}

TEST_F(LensSiteTest, OtherPathsAreNotThereAndTellNothing) {
  const std::string secret(kSecret);
  serve({folder_.write("digits", "0123456789")});
  const std::string wrong = body_of(ask("/"));
  const std::string good = url();
  std::vector<std::string> paths = {"/",
                                    "//",
                                    "/" + secret.substr(1) + "/",
                                    "/" + secret + "0/",
                                    "/0" + secret + "/",
                                    "//" + secret + "/",
                                    "/x/" + secret + "/",
                                    "/files.json",
                                    "/" + good,
                                    "/etc/passwd",
                                    "/..",
                                    "/%2e%2e/etc/passwd"};
  for (const char* path : {"../",
                           "..%2f",
                           "%00",
                           "files",
                           "files/",
                           "files/0",
                           "files/0/",
                           "files/1/x",
                           "files/-1/x",
                           "files/00000000000000000000000000000000001/x",
                           "files/99999999999999999999999/x",
                           "files/0x0/x",
                           "files/..%2f..%2fetc/passwd",
                           "files//etc/passwd",
                           "../../etc/passwd",
                           "/etc/passwd",
                           "files/0/../../..",
                           "assets",
                           "assets/",
                           "assets/../index.html",
                           "index.html"})
    paths.push_back(fmt::format("/{}/{}", kSecret, path));
  for (const std::string& path : paths) {
    const std::string answer = ask(path);
    const bool is_old_state = path.starts_with("/" + secret + "/files/0/");
    EXPECT_THAT(answer, StartsWith(is_old_state ? "HTTP/1.1 409 " : "HTTP/1.1 404 ")) << path;
    EXPECT_EQ(body_of(answer) == wrong, !is_old_state) << path << answer;
  }
  EXPECT_THAT(below(good, "Host: evil.example\r\n"), StartsWith("HTTP/1.1 400 "));  // two of them
  EXPECT_THAT(below(good + "?x=1"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/" + secret), AllOf(StartsWith("HTTP/1.1 308 "), HasSubstr("location: /" + secret + "/\r\n")));
}

TEST_F(LensSiteTest, ATicketLeadsToThePageOnce) {
  serve({}, "feedfeedfeedfeed");
  EXPECT_THAT(ask("/feedfeedfeedfeee"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("/feedfeedfeedfeed"),
              AllOf(StartsWith("HTTP/1.1 303 "), HasSubstr(fmt::format("location: /{}/\r\n", kSecret))));
  EXPECT_THAT(ask("/feedfeedfeedfeed"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(LensSiteTest, AFileThatChangedIsSaidSoAndReadAgainAfterAReload) {
  const std::string path = folder_.write("digits", "0123456789");
  serve({path});
  const std::string before = url();
  folder_.write("digits", "0123456789abc");
  const std::string answer = below(before, "Range: bytes=0-1\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 409 "), HasSubstr("digits: the file has changed"),
                            HasSubstr("13 bytes"), Not(HasSubstr(folder_.path()))));
  EXPECT_EQ(body_of(below(url(), "Range: bytes=10-\r\n")), "abc");
  fs::remove(path);
  EXPECT_THAT(below(before), AllOf(StartsWith("HTTP/1.1 410 "), HasSubstr("digits: the file is gone")));
  EXPECT_EQ(body_of(below("files.json")), R"({"files":[]})");
}

TEST_F(LensSiteTest, ALinkInPlaceOfAFileIsNotFollowed) {
  const TempFolder outside;
  outside.write("digits", "secret");
  const std::string path = folder_.write("digits", "0123456789");
  serve({folder_.path()});
  const std::string before = url();
  fs::remove(path);
  fs::create_symlink(outside.path("digits"), path);
  EXPECT_THAT(below(before), AllOf(StartsWith("HTTP/1.1 409 "), Not(HasSubstr("secret"))));
  EXPECT_EQ(body_of(below("files.json")), R"({"files":[]})");  // which would tell how large it is
}

TEST_F(LensSiteTest, AFileThatIsCutWhileItIsSentEndsTheConnection) {
  constexpr size_t kBytes = size_t{64} << 20;
  const std::string path = folder_.write("large", std::string(kBytes, 'x'));
  serve({path});
  const std::string address = fmt::format("/{}/{}", kSecret, url());
  TestClient client(port_);
  client.ask(address);
  EXPECT_THAT(client.until("\r\n\r\n"), HasSubstr(fmt::format("content-length: {}\r\n", kBytes)));
  ASSERT_EQ(::truncate(path.c_str(), 1000), 0);
  EXPECT_LT(client.rest().size(), kBytes);
  EXPECT_THAT(complaints(), HasSubstr("large: the file has changed"));
}

TEST_F(LensSiteTest, ALargeFileTakesLittleMemoryAndOthersAreServedMeanwhile) {
  constexpr uint64_t kBytes = uint64_t{5} << 30;
  const std::string path = folder_.write("sparse", "");
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kBytes)), 0);
  serve({path, folder_.write("small", "small")});
  TestClient slow(port_);
  slow.ask(fmt::format("/{}/{}", kSecret, url()));
  EXPECT_THAT(slow.until("\r\n\r\n"), HasSubstr("content-length: 5368709120\r\n"));
  EXPECT_EQ(body_of(below(url(1))), "small");
  EXPECT_EQ(body_of(below(url(), "Range: bytes=5368709118-\r\n")), std::string(2, '\0'));
  slow.break_off();
}

TEST_F(LensSiteTest, AWholeFileOfManyPiecesArrivesByteByByteAsItIs) {
  std::string content(3'000'017, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761U >> 13);
  serve({folder_.write("large", content)});
  const std::string address = fmt::format("/{}/{}", kSecret, url());
  TestClient client(port_);
  for (int i = 0; i < 3; ++i) {  // the connection stays good
    client.ask(address);
    EXPECT_EQ(body_of(client.answer()), content);
  }
  EXPECT_TRUE(body_of(below(url(), "Range: bytes=1000000-1999999\r\n")) == content.substr(1'000'000, 1'000'000));
  // A client that ends its half of the connection still gets what it asked for.
  client.ask(address);
  client.end_of_sending();
  EXPECT_EQ(body_of(client.rest()), content);
}

}  // namespace
}  // namespace ballast::testing
