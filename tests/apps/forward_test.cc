#include <gmock/gmock.h>
#include <jpeglib.h>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProgramRun forward(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "forward");
  return run_ballast(arguments);
}

// ---------------------------------------------------------------- netcl's models

TEST(Forward, RunsANetclModelOnATensorOfAnyShape) {
  const std::string model = test_file_path("netcl/train_mlp_init.netcl"),
                    data = test_file_path("netcl/train_mlp_data.npz");
  const ProgramRun run = forward({model, "--input", data, "--input-key", "x", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "kind"), "\"sequential\"");
  EXPECT_EQ(json_at(run.out, "output_shape"), "[32,4]");
  const ProgramRun none = forward({model});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("give a file with --input"));
  const ProgramRun picture = forward({model, "--image", "x.png"});
  EXPECT_EQ(picture.exit_code, 2);
  EXPECT_THAT(picture.err, HasSubstr("does not support images; it supports tensors of any shape"));
}

// ---------------------------------------------------------------- text

TEST(Forward, ShowsTheLikeliestTokens) {
  const ProgramRun run = forward({recorded_model_path("gpt_base"), "--tokens", "5,17,300,2,2,319"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(StartsWith("gpt model, output [6, 320]\n"), HasSubstr("row 5"), HasSubstr("150"),
                             HasSubstr("3.74400")));
  EXPECT_THAT(run.err, HasSubstr("ms"));
}

TEST(Forward, JsonTellsShapeAndTopFive) {
  const ProgramRun run = forward({recorded_model_path("gpt_base"), "--tokens", "7", "--json"});
  EXPECT_EQ(json_at(run.out, "kind"), "\"gpt\"");
  EXPECT_EQ(json_at(run.out, "output_shape"), "[1,320]");
  EXPECT_EQ(json_at(run.out, "rows/0/top/0/index"), "89");
  EXPECT_THAT(json_at(run.out, "rows/0/top/0/logit"), StartsWith("3.9704"));
  EXPECT_THAT(json_at(run.out, "rows/0/top/4/log_probability"), StartsWith("-"));
  EXPECT_EQ(json_at(run.out, "rows/0/top/5"), "");
}

TEST(Forward, KeepsTheLogitsInEveryFormatThatItNames) {
  const TempFolder folder;
  for (const char* name : {"logits.gten", "logits.npz", "logits.safetensors"}) {
    const std::string path = folder.path(name);
    const ProgramRun run = forward({recorded_model_path("gpt_base"), "--tokens", "7", "--out", path});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const auto archive = open_archive(path);
    ASSERT_TRUE(archive) << name;
    ASSERT_EQ(archive->tensors().size(), 1U);
    EXPECT_EQ(archive->tensors()[0].name, "logits");
    EXPECT_EQ(archive->tensors()[0].shape, (Shape{1, 320}));
  }
  const ProgramRun diff = run_ballast(
      {"diff", folder.path("logits.gten"), test_file_path("gptrs/gpt_base/forward_0.gptrsten"), "--atol", "2e-5"});
  EXPECT_EQ(diff.exit_code, 0) << diff.out << diff.err;
  EXPECT_EQ(forward({recorded_model_path("gpt_base"), "--tokens", "7", "--out", folder.path("logits.gten")}).exit_code,
            2);  // there already
  EXPECT_EQ(forward({recorded_model_path("gpt_base"), "--tokens", "7", "--out", folder.path("x.txt")}).exit_code, 2);
}

TEST(Forward, ShowsTheTextOfTokensWhereATokenizerIsAtHand) {
  const std::string json = forward({"--text", "It is a truth", "--json"}).out;
  const std::string likeliest = json_at(json, "rows/0/top/0/label");
  EXPECT_EQ(likeliest, '"' + run_ballast({"tokenize", "--decode", json_at(json, "rows/0/top/0/index")}).out + '"');
  const ProgramRun run = forward({"--text", "It is a truth"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(likeliest));
}

TEST(Forward, ReadsTextFromStandardInput) {
  const std::string script = fmt::format("printf 'It is a truth' | '{}' forward --text - --json", program_path());
  const ProgramRun run = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(json_at(run.out, "output_shape"), "[8,1024]") << run.err;
}

TEST(Forward, TellsBeforeItRunsThatItCannotWrite) {
  const TempFolder folder;
  const std::string there = folder.write("there.npz", "x");
  for (const std::string& path : {there, folder.path("none/logits.npz"), folder.path("logits.txt")}) {
    const ProgramRun run = forward({recorded_model_path("gpt_base"), "--tokens", "999999", "--out", path});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr(path), ::testing::Not(HasSubstr("999999"))));
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"there.npz"});
}

TEST(Forward, TakesTextWithATokenizer) {
  const ProgramRun run = forward(
      {recorded_model_path("gpt_base"), "--text", "Hello world", "--tokenizer", gptrs_tokenizer_path(), "--json"});
  EXPECT_EQ(json_at(run.out, "output_shape"), "[5,320]");
  EXPECT_EQ(json_at(run.out, "rows/0/top/0/index"), "299");
  EXPECT_THAT(json_at(run.out, "rows/0/top/0/logit"), StartsWith("3.9114"));
  const ProgramRun beside = forward({recorded_model_path("ministral_yarn"), "--text", "the wheel turns", "--json"});
  EXPECT_EQ(json_at(beside.out, "rows/0/top/0/index"), "63") << beside.err;
  EXPECT_THAT(json_at(beside.out, "rows/0/top/0/logit"), StartsWith("4.1234"));
}

// ---------------------------------------------------------------- what gpt.rs's program did, by its meaning

TEST(ForwardLikeGptRs, JoinsTokensAndIgnoresWhatIsForImages) {
  const std::string micro = recorded_model_path("gpt_micro");
  const ProgramRun joined = forward({micro, "--tokens", "1", "--tokens", "2,3", "--json"});
  EXPECT_EQ(json_at(joined.out, "output_shape"), "[3,19]");
  EXPECT_THAT(json_at(joined.out, "rows/0/top/0/logit"), StartsWith("2.1178"));
  const ProgramRun ignored = forward({micro, "--tokens", "1", "--seed", "5", "--batch", "9", "--json"});
  EXPECT_EQ(json_at(ignored.out, "rows/0/top/0/index"), "0");
  EXPECT_THAT(json_at(ignored.out, "rows/0/top/0/logit"), StartsWith("2.1486"));
  EXPECT_EQ(forward({micro, "--tokens", "1", "--backend", " reference "}).exit_code, 0);
}

TEST(ForwardLikeGptRs, RefusesWhatDoesNotMakeAnInput) {
  const std::string micro = recorded_model_path("gpt_micro");
  const std::vector<std::pair<std::vector<std::string>, std::string>> kCases = {
      {{"--tokens", "1,19"}, "token 19 at position 1"},
      {{"--tokens", "0,1,2,3,4,5,6,7,8,9,10,11,12"}, "13 tokens"},
      {{}, "--tokens"},
      {{"--tokens", "1", "--text", "x"}, "cannot be combined"},
      {{"--tokens", "1", "--tokenizer", gptrs_tokenizer_path()}, "--tokenizer needs --text"},
      {{"--text", "x"}, "--tokenizer"},
      {{"--text", "", "--tokenizer", gptrs_tokenizer_path()}, ""},
      {{"--tokens", ""}, ""},
      {{"--tokens", "-1"}, ""},
      {{"--tokens", "1,,2"}, "is not a token id"},
      {{"--tokens", "1", "--input", test_file_path("gptrs/archives/mixed.gptrsten")}, "cannot be combined"},
      {{"--tokens", "1", "--backend", "ref-cpu"}, "cpu, cuda, opencl, reference"},
  };
  for (const auto& [arguments, cause] : kCases) {
    std::vector<std::string> all = {micro};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProgramRun run = forward(all);
    EXPECT_EQ(run.exit_code, 2) << cause;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(cause));
  }
}

// ---------------------------------------------------------------- images

// A picture of 60 x 40: red on the left, blue on the right.
std::vector<unsigned char> two_colours() {
  std::vector<unsigned char> pixels;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      const unsigned char left = x < 30 ? 255 : 0;
      pixels.insert(pixels.end(), {left, 0, static_cast<unsigned char>(255 - left)});
    }
  }
  return pixels;
}

std::string write_jpeg(const TempFolder& folder) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = 60, jpeg.image_height = 40, jpeg.input_components = 3, jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  auto pixels = two_colours();
  while (jpeg.next_scanline < 40) {
    JSAMPROW row = pixels.data() + size_t{jpeg.next_scanline} * 180;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const std::string path = folder.write("picture.jpg", std::string_view(reinterpret_cast<char*>(bytes), size));
  std::free(bytes);
  return path;
}

class ForwardImages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    model_ = write_rule_checkpoint(*folder_, "mobilenet_v2", 1);
  }
  static void TearDownTestSuite() { delete folder_; }

  static TempFolder* folder_;
  static std::string model_;
};
TempFolder* ForwardImages::folder_ = nullptr;
std::string ForwardImages::model_;

TEST_F(ForwardImages, OfNoiseGiveTheLogitsOfGptRs) {
  const std::string path = folder_->path("noise.gten");
  const ProgramRun run =
      forward({model_, "--seed", "5", "--batch", "2", "--image-size", "97", "--out", path, "--overwrite"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("[2, 1000]"), HasSubstr("row 0"), HasSubstr("row 1")));
  const ProgramRun diff =
      run_ballast({"diff", path, test_file_path("gptrs/mobilenet_v2/forward_1.gptrsten"), "--atol", "2e-4"});
  EXPECT_EQ(diff.exit_code, 0) << diff.out;
}

TEST_F(ForwardImages, TakesPicturesAndTensors) {
  const std::string jpeg = write_jpeg(*folder_);
  const ProgramRun picture = forward({model_, "--image", jpeg, "--image-size", "64", "--json"});
  EXPECT_EQ(picture.exit_code, 0) << picture.err;
  EXPECT_EQ(json_at(picture.out, "output_shape"), "[1,1000]");
  WritePlan plan;
  const std::vector<float> zeros(std::size_t{3} * 32 * 32, 0.0F);
  plan.add_tensor(make_info("picture", DType::kF32, {1, 3, 32, 32}), std::as_bytes(std::span(zeros)));
  const std::string archive = write_plan(*folder_, "input.safetensors", plan);
  const ProgramRun tensor = forward({model_, "--input", archive, "--input-key", "picture", "--json"});
  EXPECT_EQ(tensor.exit_code, 0) << tensor.err;
  EXPECT_THAT(forward({model_, "--input", archive}).err, HasSubstr("no tensor \"input\""));
}

TEST_F(ForwardImages, RefusesWhatIsNoPicture) {
  const std::string text = folder_->write("text.png", "not a picture");
  const ProgramRun run = forward({model_, "--image", text});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("text.png: neither a PNG nor a JPEG image\n")) << "and no advice for weight files";
  const std::string jpeg = read_text_file(write_jpeg(*folder_));
  const std::string cut = folder_->write("cut.jpg", jpeg.substr(0, 100));
  EXPECT_THAT(forward({model_, "--image", cut}).err, HasSubstr("cut.jpg: the image is damaged: "));
  EXPECT_NE(forward({model_, "--image", folder_->path("none.png")}).exit_code, 0);
}

TEST_F(ForwardImages, AndTextSayWhatTheModelTakes) {
  EXPECT_THAT(forward({model_, "--tokens", "1"}).err, HasSubstr("image classification"));
  const ProgramRun text = forward({recorded_model_path("gpt_micro"), "--image", "x.png"});
  EXPECT_THAT(text.err, HasSubstr("text generation"));
  const ProgramRun generate = run_ballast({"generate", model_, "--tokens", "1"});
  EXPECT_EQ(generate.exit_code, 2);
  EXPECT_THAT(generate.err, AllOf(HasSubstr("mobilenet_v2"), HasSubstr("image classification")));
}

TEST_F(ForwardImages, ShowsLabelsWhereTheConfigHasThem) {
  std::string labels = "[";
  for (int i = 0; i < 1000; ++i) labels += fmt::format("{}\"class {}\"", i == 0 ? "" : ",", i);
  const std::string config =
      folder_->write("config.json", R"({"kind":"mobilenet_v2","config":{"labels":)" + labels + "]}}");
  const ProgramRun run = forward({model_, "--config", config, "--image-size", "32", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string index = json_at(run.out, "rows/0/top/0/index");
  EXPECT_EQ(json_at(run.out, "rows/0/top/0/label"), "\"class " + index + "\"");
}

TEST_F(ForwardImages, SeveralAndFoldersGiveALineEach) {
  const TempFolder pictures;
  const std::string a = write_jpeg(pictures);
  const std::string b = pictures.write("b.png", read_text_file(test_file_path("../../models/digits/test/7.png")));
  pictures.write("notes.txt", "no picture");
  const ProgramRun run = forward({model_, a, b, "--image-size", "32"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("output [2, 1000]"), HasSubstr(a), HasSubstr(b)));
  const std::string path = pictures.path("all.npz");
  const ProgramRun folder =
      forward({model_, "--image", pictures.path(), "--image-size", "32", "--json", "--out", path});
  EXPECT_EQ(folder.exit_code, 0) << folder.err;
  EXPECT_EQ(json_at(folder.out, "rows/0/image"), '"' + b + '"');
  EXPECT_EQ(json_at(folder.out, "rows/1/image"), '"' + a + '"');
  EXPECT_EQ(json_at(folder.out, "rows/1/top/1"), "");
  EXPECT_EQ(json_at(folder.out, "rows/2"), "");
  EXPECT_EQ(json_at(run_ballast({"inspect", path, "--json"}).out, "tensors/0/shape"), "[2,1000]");
  const ProgramRun one = forward({model_, "--image", b, "--image-size", "32", "--json"});
  EXPECT_EQ(json_at(one.out, "rows/0/top/0/index"), json_at(folder.out, "rows/0/top/0/index"));
  const TempFolder empty;
  EXPECT_THAT(forward({model_, empty.path()}).err, HasSubstr("no PNG or JPEG"));
}

TEST(Forward, ShowsAsManyEntriesAsAskedFor) {
  const std::string micro = recorded_model_path("gpt_micro");
  const std::string three = forward({micro, "--tokens", "1,2", "--top", "3", "--json"}).out;
  EXPECT_NE(json_at(three, "rows/0/top/2"), "");
  EXPECT_EQ(json_at(three, "rows/0/top/3"), "");
  EXPECT_NE(json_at(forward({micro, "--tokens", "1,2", "--top", "1000", "--json"}).out, "rows/0/top/18"), "");
  EXPECT_EQ(forward({micro, "--tokens", "1,2", "--top", "0"}).exit_code, 2);
}

TEST(Forward, ARegressionShowsValuesAndNoShares) {
  const TempFolder folder;
  folder.write("train.toml", R"(
[model]
kind = "sequential"
layers = [{ type = "Linear", in_features = 2, out_features = 1 }]
[data]
kind = "npz"
path = "data.npz"
x = "x"
y = "y"
[loss]
type = "mse"
[train]
steps = 2
output = "line.netcl"
)");
  WritePlan plan;
  const std::vector<float> x = {1, 2, 3, 4}, y = {1, 2};
  plan.add_tensor(make_info("x", DType::kF32, {2, 2}), std::as_bytes(std::span(x)));
  plan.add_tensor(make_info("y", DType::kF32, {2, 1}), std::as_bytes(std::span(y)));
  WriteSettings settings;
  ASSERT_TRUE(write_archive(folder.path("data.npz"), *find_format("npz"), plan, settings));
  const ProgramRun trained = run_ballast({"train", folder.path("train.toml"), "--quiet"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProgramRun run = forward({folder.path("line.netcl"), "--input", folder.path("data.npz"), "--input-key", "x"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("value"), HasSubstr("row 1")));
  for (const char* word : {"logit", "share", "%"}) EXPECT_EQ(run.out.find(word), std::string::npos) << run.out;
  const ProgramRun json =
      forward({folder.path("line.netcl"), "--input", folder.path("data.npz"), "--input-key", "x", "--json"});
  EXPECT_NE(json_at(json.out, "rows/0/top/0/value"), "");
  EXPECT_EQ(json_at(json.out, "rows/0/top/0/log_probability"), "");
}

}  // namespace
}  // namespace ballast::testing
