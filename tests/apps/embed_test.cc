#include <gmock/gmock.h>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_bert.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The recorded model with a tokenizer, as sentence-transformers keeps one.
class Embed : public ::testing::Test {
 protected:
  Embed() {
    auto files = sentence_files(R"({"pooling_mode_mean_tokens": true})", 16);
    files.push_back(bert_tokenizer());
    copy_bert(folder_, files);
  }
  ProgramRun embed(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"embed", folder_.path()});
    return run_ballast(arguments);
  }

  TempFolder folder_;
};

TEST_F(Embed, PrintsAVectorALine) {
  const ProgramRun run = embed({"--text", "ship", "--text", "Ships"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::istringstream lines(run.out);
  std::string line;
  size_t count = 0;
  for (; std::getline(lines, line); ++count) {
    std::istringstream numbers(line);
    double squares = 0;
    size_t width = 0;
    for (double number = 0; numbers >> number; ++width) squares += number * number;
    EXPECT_EQ(width, 48U);
    EXPECT_NEAR(squares, 1, 1e-5);
  }
  EXPECT_EQ(count, 2U);
  EXPECT_THAT(run.err, HasSubstr("2 texts, vectors of 48"));
}

TEST_F(Embed, DescribesItInJson) {
  const ProgramRun run = embed({"--text", "ships", "--text", "stone", "--json", "--similarity"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "kind"), "\"bert\"");
  EXPECT_EQ(json_at(run.out, "width"), "48");
  EXPECT_EQ(json_at(run.out, "texts/0/text"), "\"ships\"");
  EXPECT_EQ(json_at(run.out, "texts/0/tokens"), "4");  // [CLS] ship ##s [SEP]
  EXPECT_EQ(json_at(run.out, "texts/0/cut"), "0");
  EXPECT_NE(json_at(run.out, "texts/0/vector/47"), "");
  EXPECT_EQ(json_at(run.out, "texts/0/vector/48"), "");
  EXPECT_NEAR(std::stod(json_at(run.out, "similarity/0/0")), 1, 1e-12);
  EXPECT_EQ(json_at(run.out, "similarity/0/1"), json_at(run.out, "similarity/1/0"));
  EXPECT_LT(std::stod(json_at(run.out, "similarity/0/1")), 0.999);
  EXPECT_EQ(json_at(embed({"--text", "ship", "--json"}).out, "similarity"), "");
}

TEST_F(Embed, ComparesTexts) {
  const ProgramRun run = embed({"--text", "ship", "--text", "SHIP", "--text", "stone", "--similarity"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(StartsWith("  1.0000  1.0000"), HasSubstr("  SHIP\n"), EndsWith("  1.0000  stone\n")));
}

TEST_F(Embed, ReadsALineAText) {
  const std::string file = folder_.write("texts.txt", "ship\r\n\nstone boat\n");
  const ProgramRun run = embed({"--text", "boat", "--file", file, "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "texts/0/text"), "\"boat\"");
  EXPECT_EQ(json_at(run.out, "texts/1/text"), "\"ship\"");
  EXPECT_EQ(json_at(run.out, "texts/2/tokens"), "2");
  EXPECT_EQ(json_at(run.out, "texts/3/text"), "\"stone boat\"");
  EXPECT_EQ(json_at(run.out, "texts/4"), "");
  const std::string script =
      fmt::format("printf 'ship\\nboat' | '{}' embed '{}' --file - --json", program_path(), folder_.path());
  EXPECT_EQ(json_at(run_program({"/bin/sh", "-c", script}).out, "texts/1/text"), "\"boat\"");
}

TEST_F(Embed, KeepsTheVectorsInEveryFormatThatItNames) {
  for (const char* name : {"out.npy", "out.npz", "out.safetensors"}) {
    const ProgramRun run = embed({"--text", "ship", "--text", "boat", "--out", folder_.path(name)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, "");
    const auto archive = open_archive(folder_.path(name));
    ASSERT_TRUE(archive) << name;
    ASSERT_EQ(archive->tensors().size(), 1U);
    EXPECT_EQ(archive->tensors()[0].shape, (Shape{2, 48}));
  }
  EXPECT_EQ(embed({"--text", "ship", "--out", folder_.path("out.npz")}).exit_code, 2);  // there already
  EXPECT_EQ(embed({"--text", "ship", "--out", folder_.path("out.npz"), "--overwrite"}).exit_code, 0);
}

TEST_F(Embed, CutsWhatIsTooLongAndSaysSo) {
  std::string text = "ship", shorter = "ship";
  for (int i = 0; i < 13; ++i) shorter += " boat";
  for (int i = 0; i < 20; ++i) text += " boat";
  const ProgramRun run = embed({"--text", text, "--text", shorter, "--json", "--similarity"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "texts/0/tokens"), "16");  // of sentence_bert_config.json; the tokenizer's 4 do not count
  EXPECT_EQ(json_at(run.out, "texts/0/cut"), "7");
  EXPECT_EQ(json_at(run.out, "texts/1/cut"), "0");
  EXPECT_EQ(json_at(run.out, "texts/0/vector"), json_at(run.out, "texts/1/vector"));  // [SEP] stayed
  EXPECT_THAT(run.err, HasSubstr("note: text 1 is longer than the model's 16 tokens: the last 7 tokens are left out"));
}

TEST_F(Embed, TextThatLooksLikeAMarkIsText) {
  const ProgramRun run = embed({"--text", "[SEP]", "--json"});
  EXPECT_EQ(json_at(run.out, "texts/0/tokens"), "5");  // [CLS] [ sep ] [SEP]
}

TEST_F(Embed, SaysWhatIsMissing) {
  const ProgramRun nothing = embed({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("no texts: give --text TEXT or --file FILE"));
  const ProgramRun writer = run_ballast({"embed", recorded_model_path("gpt_base"), "--text", "ship"});
  EXPECT_EQ(writer.exit_code, 2);
  EXPECT_THAT(writer.err, HasSubstr("a gpt model does not support text embedding; it supports text generation"));
  const ProgramRun wordless = run_ballast({"embed", bert_path(), "--text", "ship"});
  EXPECT_EQ(wordless.exit_code, 2);
  EXPECT_THAT(wordless.err, HasSubstr("no tokenizer found next to the model"));
}

TEST_F(Embed, TheForwardPassGivesTheStatesOfTheTokens) {
  const std::string out = folder_.path("states.npz");
  const ProgramRun run = run_ballast({"forward", folder_.path(), "--text", "ships", "--out", out});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "bert model, output [4, 48]\n");
  const auto archive = open_archive(out);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->tensors()[0].name, "states");
}

}  // namespace
}  // namespace ballast::testing
