// What training leaves behind runs by itself: with its tokenizer, its class names and the way its input was made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer/byte_tokenizer.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string cat_text(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += "the cat sat on the mat. ";
  return text;
}

// Trained well enough to go on with "sat" after "the cat ".
ProgramRun train_cats(const TempFolder& folder, const std::string& tokenizer, const std::vector<std::string>& more) {
  folder.write("cats.txt", cat_text(400));
  folder.write("cats.toml",
               "[model]\nkind = \"gpt\"\ncontext_length = 32\nembed_dim = 32\nnum_layers = 1\nnum_heads = 2\n[data]\n"
               "kind = \"text\"\npath = \"cats.txt\"\n" +
                   tokenizer + "[optimizer]\ntype = \"adamw\"\nlr = 0.01\n[train]\nsteps = 120\nbatch_size = 8\n");
  std::vector<std::string> words{"train", folder.path("cats.toml"), "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  ProgramRun run = run_ballast(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run;
}

std::string continued(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"generate", model, "--prompt", "the cat ", "--greedy", "--max-tokens", "3"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramRun run = run_ballast(words);
  EXPECT_EQ(run.exit_code, 0) << model << ": " << run.err;
  return run.out;
}

TEST(TrainedText, OfBytesIsPromptedWithTextWithoutAnyFlag) {
  const TempFolder folder;
  train_cats(folder, "", {"--out", folder.path("out/cats.gptrs"), "--checkpoints", folder.path("run")});
  EXPECT_THAT(continued(folder.path("out/cats.gptrs")), HasSubstr("sat"));
  // A copy without the file beside it still takes the tokenizer by its name.
  fs::create_directory(folder.path("bare"));
  fs::copy_file(folder.path("out/cats.gptrs"), folder.path("bare/cats.gptrs"));
  EXPECT_THAT(continued(folder.path("bare/cats.gptrs"), {"--tokenizer", "bytes"}), HasSubstr("sat"));
  // What is exported from its checkpoints, as a file and as a folder.
  for (const char* out : {"a/cats.gptrs", "b/cats.safetensors", "c/", "d/cats.gguf"}) {
    const ProgramRun exported = run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path(out)});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_THAT(continued(folder.path(out)), HasSubstr("sat")) << out;
  }
}

std::map<std::string, std::string> files_in(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    files[entry.path().filename().string()] = read_text_file(entry.path().string());
  return files;
}

TEST(TrainedText, IsExportedAsTheFolderThatConvertMakesOfIt) {
  const TempFolder folder;
  train_cats(folder, "", {"--out", folder.path("out/cats.gptrs"), "--checkpoints", folder.path("run"), "--steps", "4"});
  const auto make = [&](const std::vector<std::string>& words) {
    const ProgramRun run = run_ballast(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
  };
  make({"convert", folder.path("out/cats.gptrs"), folder.path("converted/")});
  make({"checkpoints", "export", folder.path("run"), "latest", folder.path("deep/exported/")});
  make({"checkpoints", "export", folder.path("run"), "latest", folder.path("file/cats.safetensors")});
  make({"convert", folder.path("file/cats.safetensors"), folder.path("from_file/")});
  const auto converted = files_in(folder.path("converted"));
  EXPECT_TRUE(converted.contains("config.json") && converted.contains("tokenizer_config.json"));
  EXPECT_THAT(converted.at("config.json"), HasSubstr("\"eos_token_id\": null")) << "not GPT-2's, which is no byte";
  EXPECT_TRUE(files_in(folder.path("deep/exported")) == converted);
  EXPECT_TRUE(files_in(folder.path("from_file")) == converted);
}

TEST(TrainedText, IsNotExportedOverItsRunNorWithStateAnotherProgramHasNoPlaceFor) {
  const TempFolder folder;
  train_cats(folder, "", {"--checkpoints", folder.path("run"), "--steps", "4"});
  const auto before = files_in(folder.path("run"));
  const auto complaint = [&](const std::string& out, const std::string& option) {
    const ProgramRun run =
        run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path(out), option});
    EXPECT_EQ(run.exit_code, 2) << run.out;
    return run.err;
  };
  EXPECT_THAT(complaint("run/", "--overwrite"), HasSubstr("export to a folder of its own"));
  EXPECT_TRUE(files_in(folder.path("run")) == before);
  for (const char* out : {"out/", "out.gguf"})
    EXPECT_THAT(complaint(out, "--with-state"), HasSubstr("export --with-state to a .safetensors file")) << out;
  EXPECT_THAT(folder.names(), ElementsAre("cats.toml", "cats.txt", "run"));
}

TEST(TrainedText, TakesItsTokenizerFileAlong) {
  const TempFolder folder;
  train_cats(folder, "tokenizer = \"" + gptrs_tokenizer_path() + "\"\n",
             {"--out", folder.path("out/cats.gptrs"), "--steps", "4"});
  EXPECT_EQ(read_text_file(folder.path("out/tokenizer.json")), read_text_file(gptrs_tokenizer_path()));
  const ProgramRun run =
      run_ballast({"generate", folder.path("out/cats.gptrs"), "--prompt", "the", "--max-tokens", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(TrainedText, IsNotPutBesideTheTokenizerOfAnotherModel) {
  const TempFolder folder;
  fs::create_directory(folder.path("out"));
  folder.write("out/tokenizer.json", "{}");
  folder.write("cats.txt", cat_text(40));
  folder.write("cats.toml",
               "[model]\nkind = \"gpt\"\ncontext_length = 8\nembed_dim = 8\nnum_layers = 1\nnum_heads = 1\n[data]\n"
               "kind = \"text\"\npath = \"cats.txt\"\n[train]\nsteps = 2\noutput = \"out/cats.gptrs\"\n");
  for (const std::string extra : {"--quiet", "--check"}) {
    const ProgramRun run = run_ballast({"train", folder.path("cats.toml"), extra});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err,
                AllOf(HasSubstr("holds another tokenizer (tokenizer.json)"), HasSubstr("a folder of its own")));
  }
  EXPECT_EQ(read_text_file(folder.path("out/tokenizer.json")), "{}");
  EXPECT_FALSE(fs::exists(folder.path("out/cats.gptrs")));
}

TEST(ByteTokenizer, GivesEveryByteItsValueAndTakesItBack) {
  const auto tokenizer = load_tokenizer("bytes");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string text = "A line.\n\tÜber 10 €! \x7f";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids) << ids.error().message;
  ASSERT_EQ(ids->size(), text.size());
  for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ((*ids)[i], static_cast<unsigned char>(text[i])) << i;
  EXPECT_EQ(*tokenizer->decode(*ids), text);
  EXPECT_EQ(tokenizer->size(), 256U);
}

// ---------------------------------------------------------------- pictures

// Two classes of pictures, told apart by their brightness: digits of ink and of paper.
void make_pictures(const TempFolder& folder) {
  for (const char* name : {"dark", "light"}) fs::create_directories(folder.path(std::string("set/") + name));
  for (int i = 0; i < 5; ++i) {
    const std::string number = std::to_string(i);
    fs::copy_file(test_file_path("../../models/digits/test/" + number + ".png"),
                  folder.path("set/dark/" + number + ".png"));
    fs::copy_file(test_file_path("../../models/digits/test/" + std::to_string(i + 5) + ".png"),
                  folder.path("set/light/" + number + ".png"));
  }
}

struct PictureModel {
  const char* name;
  const char* model;  // TOML
};

class TrainedPictures : public ::testing::TestWithParam<PictureModel> {};
INSTANTIATE_TEST_SUITE_P(
    WhateverTheFirstLayer, TrainedPictures,
    ::testing::Values(PictureModel{"mlp", "kind = \"mlp\"\nhidden = [16]"},
                      PictureModel{"flatten",
                                   "kind = \"sequential\"\nlayers = [{ type = \"Flatten\" }, { type = "
                                   "\"Linear\", in_features = 300, out_features = 2 }]"},
                      PictureModel{"conv",
                                   "kind = \"sequential\"\nlayers = [{ type = \"Conv2d\", in_channels = 3, "
                                   "out_channels = 4, kernel_size = 3 }, { type = \"ReLU\" }, { type = "
                                   "\"Flatten\" }, { type = \"Linear\", in_features = 256, out_features = 2 }]"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(TrainedPictures, AreClassifiedByNameFromAnImageFile) {
  const TempFolder folder;
  make_pictures(folder);
  folder.write("run.toml",
               fmt::format("[model]\n{}\n[data]\nkind = \"images\"\npath = \"set\"\nsize = 10\n[optimizer]\nlr = "
                           "0.01\n[train]\nsteps = 80\nbatch_size = 10\n",
                           GetParam().model));
  const ProgramRun run = run_ballast({"train", folder.path("run.toml"), "--quiet", "--out", folder.path("m.netcl"),
                                      "--checkpoints", folder.path("run")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run_ballast({"train", folder.path("run.toml"), "--check"}).out, HasSubstr("2 classes: dark, light"));
  ASSERT_EQ(
      run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path("w.safetensors")}).exit_code, 0);
  ASSERT_EQ(run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path("again.netcl")}).exit_code,
            0);
  std::vector<std::string> seen;
  for (const char* model : {"m.netcl", "w.safetensors", "again.netcl"}) {
    std::string said;
    for (int i = 0; i < 5; ++i) {
      for (const std::string name : {"dark", "light"}) {
        const ProgramRun forward = run_ballast(
            {"forward", folder.path(model), "--image", folder.path(fmt::format("set/{}/{}.png", name, i)), "--json"});
        ASSERT_EQ(forward.exit_code, 0) << forward.err;
        EXPECT_EQ(json_string(json_at(forward.out, "rows/0/top/0/label")), name) << model << " " << i;
        said += json_at(forward.out, "rows/0/top");
      }
    }
    seen.push_back(said);
  }
  EXPECT_EQ(seen[0], seen[1]) << "the exported model computes the same";
  EXPECT_EQ(seen[0], seen[2]);
}

TEST(TrainedModels, AreNotExportedToAFormatThatCannotRunThemUnlessAsked) {
  const TempFolder folder;
  make_pictures(folder);
  folder.write("run.toml",
               "[model]\nkind = \"mlp\"\n[data]\nkind = \"images\"\npath = \"set\"\nsize = 4\n[train]\nsteps = 2\n");
  ASSERT_EQ(run_ballast({"train", folder.path("run.toml"), "--quiet", "--checkpoints", folder.path("run")}).exit_code,
            0);
  const auto export_as = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words{"checkpoints", "export", folder.path("run"), "latest", folder.path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run_ballast(words);
  };
  const ProgramRun refused = export_as("w.npz", {});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--container-only"));
  EXPECT_FALSE(fs::exists(folder.path("w.npz")));
  EXPECT_EQ(export_as("w.npz", {"--container-only"}).exit_code, 0);
}

// ---------------------------------------------------------------- tables

TEST(TrainedTables, OfCsvWithTextLabelsNameWhatTheySee) {
  const TempFolder folder;
  std::string csv = "length,width,kind\n";
  for (int i = 0; i < 40; ++i)
    csv += i % 2 == 0 ? fmt::format("{},1.5,short\n", i % 5) : fmt::format("{},1,long\n", 20 + i % 7);
  folder.write("t.csv", csv);
  folder.write("run.toml",
               "[model]\nkind = \"mlp\"\nhidden = [8]\n[data]\nkind = \"csv\"\npath = \"t.csv\"\ndivide_by = "
               "20\nheld_out = 0.2\n[optimizer]\nlr = 0.05\n[train]\nepochs = 30\nbatch_size = 8\nseed = 3\n");
  const ProgramRun check = run_ballast({"train", folder.path("run.toml"), "--check"});
  EXPECT_THAT(check.out, AllOf(HasSubstr("32 examples, 8 held out"), HasSubstr("2 classes: long, short")));
  const ProgramRun run =
      run_ballast({"train", folder.path("run.toml"), "--json", "--quiet", "--out", folder.path("m.netcl")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "eval_accuracy"), "1");
  const std::vector<float> x{1.2F, 0.05F};
  WritePlan plan;
  plan.add_tensor(make_info("input", DType::kF32, {1, 2}), std::as_bytes(std::span(x)));
  const std::string input = write_plan(folder, "x.safetensors", plan);
  const ProgramRun forward = run_ballast({"forward", folder.path("m.netcl"), "--input", input, "--json"});
  ASSERT_EQ(forward.exit_code, 0) << forward.err;
  EXPECT_EQ(json_string(json_at(forward.out, "rows/0/top/0/label")), "long");
  // What is held out follows from the seed.
  const ProgramRun again = run_ballast({"train", folder.path("run.toml"), "--json", "--quiet"});
  EXPECT_EQ(json_at(again.out, "eval_loss"), json_at(run.out, "eval_loss"));
  const ProgramRun other =
      run_ballast({"train", folder.path("run.toml"), "--json", "--quiet", "--set", "train.seed=4"});
  EXPECT_NE(json_at(other.out, "eval_loss"), json_at(run.out, "eval_loss"));
}

TEST(TrainedTables, OfJsonLinesTeachAGptTheTextOfAColumn) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("{{\"id\": {}, \"text\": \"the cat sat on the mat.\"}}\n", i);
  folder.write("t.jsonl", lines);
  folder.write("run.toml",
               "[model]\nkind = \"gpt\"\ncontext_length = 32\nembed_dim = 32\nnum_layers = 1\nnum_heads = 2\n[data]\n"
               "kind = \"jsonl\"\npath = \"t.jsonl\"\ntext = \"text\"\n[optimizer]\ntype = \"adamw\"\nlr = 0.01\n"
               "[train]\nsteps = 120\nbatch_size = 8\noutput = \"out/t.gptrs\"\n");
  const ProgramRun run = run_ballast({"train", folder.path("run.toml"), "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(continued(folder.path("out/t.gptrs")), HasSubstr("sat"));
  const ProgramRun wrong = run_ballast({"train", folder.path("run.toml"), "--set", "data.text=body", "--overwrite"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("there is no column \"body\""));
}

}  // namespace
}  // namespace ballast::testing
