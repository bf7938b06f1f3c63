#include <gmock/gmock.h>

#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/format_testing.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Positions of the words in the text, to tell their order.
std::vector<size_t> positions(const std::string& text, const std::vector<std::string>& words) {
  std::vector<size_t> found;
  for (const std::string& word : words) found.push_back(text.find(word));
  return found;
}

bool ascending(const std::vector<size_t>& values) {
  return std::ranges::is_sorted(values) && values.back() != std::string::npos;
}

TEST(Inspect, ShowsFormatMetadataTotalsAndATree) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", write_sample(folder)});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* text : {"safetensors", "for tests", "f32", "i64", "blocks.", "3 tensors", "[2, 3]", "head"}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
}

TEST(Inspect, TellsFirstWhatAModelIs) {
  const std::string path = test_file_path("gguf/tiny/tiny_llama.q4_0.gguf");
  const ProgramRun run = run_ballast({"inspect", path});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("4 heads, 2 for keys and values"));
  EXPECT_THAT(run.out, HasSubstr("q4_0 97.3 %, f32 2.7 %"));
  EXPECT_THAT(run.out, HasSubstr("[64 texts] \"<unk>\", \"<s>\""));
  const std::string json = run_ballast({"inspect", path, "--json"}).out;
  EXPECT_EQ(json_at(json, "model/parameters"), "82240");
  EXPECT_EQ(json_at(json, "model/vocabulary"), "64");
}

TEST(Inspect, WritesLongListsWholeWhenAsked) {
  const TempFolder folder;
  const std::string hundred = GgufBuilder::number(uint32_t{5}) + GgufBuilder::number(uint64_t{100});
  const std::string path =
      folder.write("a.gguf", GgufBuilder().pair("list", MetaType::kArray, hundred + std::string(400, '\0')).build());
  const std::string brief = run_ballast({"inspect", path, "--json"}).out;
  const std::string full = run_ballast({"inspect", path, "--json", "--full"}).out;
  EXPECT_EQ(json_at(brief, "scalars/list/values/64"), "");
  EXPECT_EQ(json_at(brief, "scalars/list/left_out"), "36");
  EXPECT_EQ(json_at(full, "scalars/list/values/99"), "0");
  EXPECT_EQ(json_at(full, "scalars/list/left_out"), "");
}

TEST(Inspect, SortsNumbersInNamesAsNumbers) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", write_sample(folder), "--all"});
  EXPECT_TRUE(ascending(positions(run.out, {"0.weight", "2.weight", "10.weight"}))) << run.out;
}

TEST(Inspect, SortsAwkwardNamesAsIfNumbersWereWords) {
  const TempFolder folder;
  // In their order. All begin alike, and numbers stand first, behind text, behind each other, with zeros before them,
  // and too long for any integer.
  const std::vector<std::string> names = {"w9",
                                          "w9.",
                                          "w9.0",
                                          "w9.2",
                                          "w9.02",
                                          "w9.10",
                                          "w9.72057594037927935",
                                          "w9.72057594037927936",
                                          "w9.99999999999999999999998",
                                          "w9.99999999999999999999999",
                                          "w9.a",
                                          "w9.a1",
                                          "w9.a1.z",
                                          "w9.a2",
                                          "w9.a10",
                                          "w9.abcdefghi2",
                                          "w9.abcdefghi10",
                                          "w9.b",
                                          "w9.\xC3\xA9",
                                          "w10.0"};
  WritePlan plan;
  for (const std::string& name : names) plan.add_tensor(make_info(name, DType::kU8, {0}), ByteSpan());
  const ProgramRun run =
      run_ballast({"inspect", write_plan(folder, "w.safetensors", plan), "--sort", "name", "--json"});
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(json_at(run.out, fmt::format("tensors/{}/name", i)), '"' + names[i] + '"');
  }
}

TEST(Inspect, SortsBySizeAndByOffset) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string by_size = run_ballast({"inspect", path, "--flat", "--sort", "size"}).out;
  EXPECT_TRUE(ascending(positions(by_size, {"tensors\n", "head", "blocks.0"}))) << by_size;
  const std::string by_offset = run_ballast({"inspect", path, "--json", "--sort", "offset"}).out;
  uint64_t last = 0;
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t offset = std::stoull(json_at(by_offset, "tensors/" + std::to_string(i) + "/offset"));
    EXPECT_GT(offset, last);
    last = offset;
  }
}

TEST(Inspect, ShowsOnlyTensorsThatOneOfThePatternsFinds) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"inspect", path, "--flat", "--only", "^head$", "--only", "\\.10\\."});
  EXPECT_THAT(run.out, HasSubstr("head"));
  EXPECT_THAT(run.out, HasSubstr("blocks.10.weight"));
  EXPECT_THAT(run.out, Not(HasSubstr("blocks.2.weight")));
  const ProgramRun none = run_ballast({"inspect", path, "--only", "nothing"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.out, HasSubstr("no tensor name matches"));
  const ProgramRun bad = run_ballast({"inspect", path, "--only", "("});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, StartsWith("ballast: "));
}

TEST(Inspect, JsonHasTheDocumentedMembers) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"inspect", path, "--json"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(json_at(run.out, "path"), "\"" + path + "\"");
  EXPECT_EQ(json_at(run.out, "format"), "\"safetensors\"");
  EXPECT_EQ(json_at(run.out, "bytes"), std::to_string(read_text_file(path).size()));
  EXPECT_EQ(json_at(run.out, "metadata"), R"({"format":"pt","note":"for tests"})");
  EXPECT_EQ(json_at(run.out, "scalars"), "{}");
  EXPECT_EQ(json_at(run.out, "config"), "null");
  EXPECT_NE(json_at(run.out, "version"), "");
  EXPECT_THAT(json_keys(run.out, "tensors/0"),
              ElementsAre("name", "dtype", "shape", "bytes", "offset", "param_id", "base_id", "requires_grad"));
}

TEST(Inspect, JsonDescribesATensor) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", write_sample(folder), "--json", "--only", "head"});
  EXPECT_EQ(json_at(run.out, "tensors/0/name"), "\"head\"");
  EXPECT_EQ(json_at(run.out, "tensors/0/dtype"), "\"i64\"");
  EXPECT_EQ(json_at(run.out, "tensors/0/shape"), "[4]");
  EXPECT_EQ(json_at(run.out, "tensors/0/bytes"), "32");
  EXPECT_EQ(json_at(run.out, "tensors/0/param_id"), "null");
  EXPECT_EQ(json_at(run.out, "tensors/0/requires_grad"), "null");
  EXPECT_EQ(json_at(run.out, "tensors/1"), "");
}

TEST(Inspect, BaseIdsAreTheBytesThatFilesStore) {
  const TempFolder folder;
  WritePlan plan;
  plan.add_tensor(make_info("lm_head", DType::kU8, {0}), ByteSpan());
  const ProgramRun run = run_ballast({"inspect", write_plan(folder, "id.safetensors", plan), "--json"});
  EXPECT_EQ(json_at(run.out, "tensors/0/base_id"), "\"585d23eebd91ff137aef590d2ec762a9\"");
}

TEST(Inspect, HashGivesBothDigestsAndThatOfTheArchive) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"inspect", path, "--json", "--hash", "--only", "head"});
  const Archive archive = open_archive(path).value();
  const auto digests = digest_tensors(archive).value();
  const size_t head = archive.find("head").value();
  EXPECT_EQ(json_at(run.out, "tensors/0/blake3"), "\"" + to_hex(digests[head].blake3) + "\"");
  EXPECT_EQ(json_at(run.out, "tensors/0/sha256"), "\"" + sha256_hex(counting_bytes(32, 4)) + "\"");
  EXPECT_EQ(json_at(run.out, "digest"), "\"" + to_hex(archive_digest(archive.tensors(), digests)) + "\"");
  EXPECT_THAT(run_ballast({"inspect", path, "--hash"}).out, HasSubstr(to_hex(digests[head].blake3)));
}

TEST(Inspect, AMissingFileIsExitCode2) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", folder.path("none.safetensors")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, StartsWith("ballast: " + folder.path("none.safetensors")));
}

TEST(Inspect, AFolderWithoutWeightsIsExitCode2) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", folder.path()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, StartsWith("ballast: "));
}

TEST(Inspect, AnUnknownFileIsExitCode2) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"inspect", folder.write("x.safetensors", "This is a shopping list: bread, milk.")});
  EXPECT_EQ(run.exit_code, 2);
}

TEST(Inspect, ATruncatedFileIsExitCode1) {
  const TempFolder folder;
  const std::string whole = read_text_file(write_sample(folder));
  const std::string cut = folder.write("cut.safetensors", whole.substr(0, whole.size() - 1));
  const ProgramRun run = run_ballast({"inspect", cut});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr(cut));
}

TEST(Inspect, ErrorsInJsonModeAreAnObjectToo) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"inspect", folder.path("none"), "--json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(json_at(run.out, "error/code"), "\"not_found\"");
  EXPECT_NE(json_at(run.out, "error/message"), "");
  EXPECT_THAT(run.err, StartsWith("ballast: "));
}

TEST(Inspect, HostileNamesCannotDriveTheTerminal) {
  const TempFolder folder;
  WritePlan plan;
  plan.description.metadata = {{"title", std::string("\x1b]0;owned\a")}};
  plan.add_tensor(make_info("a\x1b[2Jb\n\xE2\x80\xAE", DType::kU8, {0}), ByteSpan());
  const std::string path = write_plan(folder, "hostile.safetensors", plan);
  const ProgramRun run = run_ballast({"inspect", path});
  EXPECT_THAT(run.out, HasSubstr("a\\x1b[2Jb\\n\\u202e"));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(json_at(run_ballast({"inspect", path, "--json"}).out, "tensors/0/name"), "\"a\\u001b[2Jb\\n\xE2\x80\xAE\"");
}

TEST(Inspect, ANameOfManyPartsNeitherHangsNorFillsTheScreen) {
  const TempFolder folder;
  WritePlan plan;
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "a.";
  plan.add_tensor(make_info(deep + "x", DType::kU8, {0}), ByteSpan());
  plan.add_tensor(make_info(deep + "y", DType::kU8, {0}), ByteSpan());
  for (int i = 0; i < 1000; ++i) plan.add_tensor(make_info("t" + std::to_string(i), DType::kU8, {0}), ByteSpan());
  const std::string path = write_plan(folder, "deep.safetensors", plan);
  ProgramSetting setting;
  setting.timeout_seconds = 20;
  const ProgramRun run = run_ballast({"inspect", path}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_LT(run.out.size(), 3 * read_text_file(path).size());
}

// A GPTRSTEN file whose two tensors refer to the same eight bytes.
std::string write_shared(const TempFolder& folder) {
  const auto entry = [](const std::string& name, uint64_t offset) {
    std::string text;
    append_le<uint32_t>(text, static_cast<uint32_t>(name.size()));
    text += name;
    append_le<uint32_t>(text, 1);
    append_le<uint64_t>(text, 2);
    append_le<uint32_t>(text, 0);
    append_le<uint8_t>(text, 0);
    append_le<uint64_t>(text, offset);
    append_le<uint64_t>(text, 8);
    return text;
  };
  const size_t index_size = 4 + entry("embedding", 0).size() + entry("head", 0).size();
  std::string file = "GPTRSTEN";
  append_le<uint32_t>(file, 2);
  append_le<uint32_t>(file, static_cast<uint32_t>(index_size));
  append_le<uint32_t>(file, 2);
  for (const char* name : {"embedding", "head"}) file += entry(name, 16 + index_size);
  return folder.write("shared.gptrsten", file + std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

TEST(Inspect, TellsWhatTheModelOfAFolderIs) {
  const std::string folder = test_file_path("hf/gemma3");
  const std::string text = run_ballast({"inspect", folder}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("  architecture    gemma3_text\n"), HasSubstr("  memory to run   "),
                          HasSubstr("  attention       4 heads, 2 for keys and values\n"),
                          HasSubstr("[\"sliding_attention\", \"sliding_attention\", \"full_attention\"")));
  const std::string json = run_ballast({"inspect", folder, "--json"}).out;
  EXPECT_EQ(json_at(json, "model/layers"), "4");
  EXPECT_EQ(json_at(json, "model/context"), "128");
  EXPECT_EQ(json_at(json, "model/chat_template"), "false");
}

TEST(Inspect, TensorsThatShareTheirBytesAreTied) {
  const TempFolder folder;
  const std::string path = write_shared(folder);
  EXPECT_THAT(run_ballast({"inspect", path}).out, HasSubstr("\n  embedding = head  stored once\n"));
  EXPECT_EQ(json_at(run_ballast({"inspect", path, "--json"}).out, "tied"),
            R"([{"names":["embedding","head"],"stored_once":true}])");
}

// Twelve layers of two experts each; layer 7 has a wider weight.
std::string write_layers(const TempFolder& folder) {
  WritePlan plan;
  const auto add = [&](std::string name, Shape shape) {
    const TensorInfo info = make_info(std::move(name), DType::kF32, std::move(shape));
    plan.add_tensor(info, [bytes = counting_bytes(info.byte_size, 1)](ByteSink& sink) { return sink.write(bytes); });
  };
  for (int layer = 0; layer < 12; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add(prefix + "norm.weight", {4});
    for (const char* expert : {"0", "1"}) add(prefix + "experts." + expert + ".weight", {4, layer == 7 ? 5U : 4U});
  }
  add("lm_head.weight", {8});
  return write_plan(folder, "layers.safetensors", plan);
}

TEST(Inspect, FoldsLayersThatAreBuiltAlikeAndExpandsThemWithAll) {
  const TempFolder folder;
  const std::string path = write_layers(folder);
  const std::string folded = run_ballast({"inspect", path}).out;
  EXPECT_THAT(folded, HasSubstr("0-6, 8-11."));
  EXPECT_THAT(folded, HasSubstr("11 x 3 tensors"));
  EXPECT_THAT(folded, HasSubstr("0, 1.weight"));
  EXPECT_THAT(folded, HasSubstr("2 x [4, 4]"));
  EXPECT_THAT(folded, HasSubstr("2 x [4, 5]"));
  EXPECT_THAT(folded, Not(HasSubstr("10.")));
  EXPECT_THAT(folded, HasSubstr("lm_head.weight"));
  const std::string all = run_ballast({"inspect", path, "--all"}).out;
  EXPECT_THAT(all, AllOf(HasSubstr("  10."), HasSubstr("  11."), Not(HasSubstr(" x "))));
  EXPECT_LT(std::ranges::count(folded, '\n') + 30, std::ranges::count(all, '\n'));
  for (const char* flag : {"--flat", "--hash", "--sort=size"}) {
    EXPECT_THAT(run_ballast({"inspect", path, flag}).out, Not(HasSubstr(" x "))) << flag;
  }
}

TEST(Inspect, SmallSizesAreInBytesAndJsonKeepsThemExact) {
  const TempFolder folder;
  const std::string path = write_tensors(folder, "five.safetensors", {{"w", {1, 2, 3, 4, 5}}});
  const ProgramRun run = run_ballast({"inspect", path});
  EXPECT_THAT(run.out, HasSubstr("  20 B\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("MiB")));
  EXPECT_EQ(json_at(run_ballast({"inspect", path, "--json"}).out, "tensors/0/bytes"), "20");
}

TEST(Inspect, FilesOfAnotherKindAreNamedWithWhatToDoAndTheDoctor) {
  const TempFolder folder;
  // One stored member, a.txt.
  const ByteVector zip = from_hex(
      "504b030414000000000000002100ac2a93d8020000000200000005000000612e7478746869504b0102140314000000000000"
      "002100ac2a93d80200000002000000050000000000000000000000800100000000612e747874504b05060000000001000100"
      "33000000250000000000");
  const std::pair<std::string, const char*> cases[] = {
      {folder.write("page.safetensors", "<!doctype html><html>404"), "a web page (HTML)"},
      {folder.write("pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
       "git lfs pull"},
      {folder.write("packed.safetensors", "\x1f\x8b\x08 rest of it"), "gunzip"},
      {folder.write("archive.npz", as_text(zip)), "a zip archive without arrays"},
  };
  for (const auto& [path, words] : cases) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"inspect", path}, {"verify", path}, {"convert", path, folder.path("out.npz")}, {"forward", path}}) {
      const ProgramRun run = run_ballast(arguments);
      EXPECT_EQ(run.exit_code, 2) << arguments.front() << ' ' << path;
      EXPECT_THAT(run.err, AllOf(HasSubstr(words), HasSubstr("doctor"))) << arguments.front() << ' ' << path;
    }
  }
}

}  // namespace
}  // namespace ballast::testing
