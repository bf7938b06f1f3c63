#include <gmock/gmock.h>

#include <cmath>

#include "tests/apps/ballast_program.h"
#include "tests/support/block_recordings.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A model in small: two matrices, a bias, a norm, and a matrix with short rows.
std::string write_model(const TempFolder& folder) {
  static const std::vector<float> values = block_source("gaussian_64x1024");
  const auto part = [](size_t begin, size_t count) { return std::as_bytes(std::span(values).subspan(begin, count)); };
  WritePlan plan;
  plan.add_tensor(make_info("blk.0.ffn.weight", DType::kF32, {16, 1024}), part(0, 16 * 1024));
  plan.add_tensor(make_info("output.weight", DType::kF32, {16, 512}), part(16384, 16 * 512));
  plan.add_tensor(make_info("blk.0.ffn.bias", DType::kF32, {16}), part(0, 16));
  plan.add_tensor(make_info("blk.0.attn_norm.weight", DType::kF32, {2, 256}), part(0, 512));
  plan.add_tensor(make_info("blk.0.short.weight", DType::kF32, {4, 96}), part(0, 4 * 96));
  return write_plan(folder, "model.safetensors", plan);
}

TEST(QuantizeCommand, WritesBlocksAndTellsTheErrorOfEachTensor) {
  const TempFolder folder;
  const std::string source = write_model(folder), target = folder.path("model.gguf");
  const ProgramRun run = run_ballast({"quantize", source, target, "--type", "q4_k", "--pure"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("3 of 5 tensors to q4_k_m"));
  EXPECT_THAT(run.out, HasSubstr("types: "));
  EXPECT_THAT(run.out, HasSubstr("2 q4_k, "));
  EXPECT_THAT(run.out, HasSubstr("bits per weight"));
  EXPECT_THAT(run.out, HasSubstr("stays: no matrix"));
  EXPECT_THAT(run.out, HasSubstr("stays: a norm"));
  EXPECT_THAT(run.out, HasSubstr("rows of 96 are no whole blocks of 256"));
  EXPECT_THAT(run.out, HasSubstr("total:"));
  const std::string listing = run_ballast({"inspect", target, "--json", "--sort", "name"}).out;
  EXPECT_EQ(json_at(listing, "tensors/0/dtype"), "\"f32\"");   // attn_norm
  EXPECT_EQ(json_at(listing, "tensors/2/dtype"), "\"q4_k\"");  // ffn.weight
  EXPECT_EQ(json_at(listing, "tensors/3/dtype"), "\"q5_0\"");  // short
}

TEST(QuantizeCommand, TheObjectHasTheErrorsAndSizes) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"quantize", write_model(folder), folder.path("model.gguf"), "--type", "q8_0",
                                      "--keep", "output=q6_k", "--keep", "short=f16", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "type"), "\"q8_0\"");
  EXPECT_EQ(json_at(run.out, "quantized"), "2");
  // In the order of the file, which is that of the names.
  EXPECT_THAT(json_keys(run.out, "tensors/2"), ElementsAre("name", "shape", "from", "to", "bytes_before", "bytes_after",
                                                           "reason", "rmse", "max_abs_error", "relative_error"));
  EXPECT_EQ(json_at(run.out, "tensors/2/bytes_after"), std::to_string(16 * 1024 / 32 * 34));
  EXPECT_LT(std::stod(json_at(run.out, "tensors/2/rmse")), 0.006);
  EXPECT_EQ(json_at(run.out, "tensors/4/to"), "\"q6_k\"");
  EXPECT_EQ(json_at(run.out, "tensors/1/reason"), "\"no matrix\"");
  EXPECT_EQ(json_at(run.out, "tensors/3/to"), "\"f16\"");
  EXPECT_LT(std::stoull(json_at(run.out, "bytes_after")), std::stoull(json_at(run.out, "bytes_before")) / 3);
}

TEST(QuantizeCommand, TypesAndPresetsAreTakenInAnyCaseAndBehindThePaths) {
  const TempFolder folder;
  const std::string source = write_model(folder);
  const auto type_of_output = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"quantize", source, folder.path("out.gguf"), "--overwrite", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = run_ballast(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json_at(run.out, "type") + json_at(run.out, "tensors/4/to");
  };
  EXPECT_EQ(type_of_output({"--type", "Q4_K_M"}), "\"q4_k_m\"\"q6_k\"");
  EXPECT_EQ(type_of_output({"q4_k"}), "\"q4_k_m\"\"q6_k\"");
  EXPECT_EQ(type_of_output({"Q3_K_L"}), "\"q3_k_l\"\"q6_k\"");
  EXPECT_EQ(type_of_output({"--type", "Q8_0"}), "\"q8_0\"\"q8_0\"");
  EXPECT_EQ(type_of_output({"q5_K_s", "--pure"}), "\"q5_k_s\"\"q5_k\"");
  EXPECT_EQ(type_of_output({"F16"}), "\"f16\"\"f16\"");
  EXPECT_EQ(type_of_output({"q4_0", "--keep", "output=Q5_1"}), "\"q4_0\"\"q5_1\"");
  const std::string blocks = folder.path("out.gguf"), plain = folder.path("plain.safetensors");
  EXPECT_EQ(run_ballast({"convert", blocks, plain, "--dequantize", "F16"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"convert", source, folder.path("b.safetensors"), "--dtype", "BF16"}).exit_code, 0);
}

TEST(QuantizeCommand, TheObjectSumsUpByType) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"quantize", write_model(folder), folder.path("m.gguf"), "q6_k", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "types/0/type"), "\"q6_k\"");
  EXPECT_EQ(json_at(run.out, "types/0/tensors"), "2");
  EXPECT_EQ(json_at(run.out, "types/0/elements"), std::to_string(16 * 1024 + 16 * 512));
  EXPECT_EQ(json_at(run.out, "types/0/bytes"), std::to_string((16 * 1024 + 16 * 512) / 256 * 210));
  // With a bias and a norm in f32, and short rows in q8_0.
  const double bytes = (16 * 1024 + 16 * 512) / 256 * 210 + (16 + 512) * 4 + 4 * 96 / 32 * 34;
  EXPECT_DOUBLE_EQ(std::stod(json_at(run.out, "bits_per_weight")), 8 * bytes / (16 * 1536 + 16 + 512 + 4 * 96));
}

TEST(QuantizeCommand, ADryRunWritesNothingAndKnowsNoErrors) {
  const TempFolder folder;
  const std::string target = folder.path("model.gguf");
  const ProgramRun run =
      run_ballast({"quantize", write_model(folder), target, "--type", "q4_0", "--dry-run", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "tensors/2/to"), "\"q4_0\"");
  EXPECT_EQ(json_at(run.out, "rmse"), "");
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST(QuantizeCommand, TheSameBytesOnAnyNumberOfThreads) {
  const TempFolder folder;
  const std::string source = write_model(folder);
  for (const char* threads : {"1", "3"}) {
    const std::string target = folder.path(std::string(threads) + ".gguf");
    EXPECT_EQ(run_ballast({"quantize", source, target, "--type", "q5_k", "--threads", threads}).exit_code, 0);
  }
  EXPECT_EQ(read_text_file(folder.path("1.gguf")), read_text_file(folder.path("3.gguf")));
}

TEST(QuantizeCommand, WhatCannotBeQuantisedIsRefusedAndNothingIsWritten) {
  const TempFolder folder;
  WritePlan plan;
  std::vector<float> values(64, 1.0F);
  values[40] = 1e30F;
  plan.add_tensor(make_info("w", DType::kF32, {2, 32}), std::as_bytes(std::span(values)));
  const std::string target = folder.path("out.gguf");
  const ProgramRun run = run_ballast({"quantize", write_plan(folder, "w.safetensors", plan), target, "--type", "q4_0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("tensor \"w\": element 40 is 1e+30, too large"));
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST(QuantizeCommand, FlagsAreChecked) {
  const TempFolder folder;
  const std::string source = write_model(folder), target = folder.path("x.gguf");
  EXPECT_THAT(run_ballast({"quantize", source, target}).err, HasSubstr("--type"));
  EXPECT_THAT(run_ballast({"quantize", source, target, "q4_0", "--type", "q8_0"}).err, HasSubstr("given twice"));
  const ProgramRun unknown = run_ballast({"quantize", source, target, "--type", "Q4_K_N"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err,
              AllOf(HasSubstr("unknown type \"Q4_K_N\", did you mean q4_k_"), HasSubstr("q3_k_l"), HasSubstr("bf16")));
  const ProgramRun rule = run_ballast({"quantize", source, target, "--type", "q4_0", "--keep", "norm=q9"});
  EXPECT_EQ(rule.exit_code, 2);
  EXPECT_THAT(rule.err, HasSubstr("--keep: \"norm=q9\": write REGEX=TYPE"));
}

// ---------------------------------------------------------------- models

std::string forward_of(const std::string& model) {
  const ProgramRun run = run_ballast({"forward", model, "--tokens", "1,2,3", "--json"});
  EXPECT_EQ(run.exit_code, 0) << model << ": " << run.err;
  return run.out;
}

TEST(QuantizedModels, AHuggingFaceFolderBecomesAGgufFileThatRuns) {
  const TempFolder folder;
  const std::string source = test_file_path("hf/llama_plain"), target = folder.path("q.gguf");
  const ProgramRun run = run_ballast({"quantize", source, target, "--type", "Q8_0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("blk.0.attn_v.weight"));
  forward_of(target);
  const std::string listing = run_ballast({"inspect", target, "--json"}).out;
  EXPECT_THAT(listing, AllOf(HasSubstr("\"general.architecture\""), HasSubstr("\"general.file_type\"")));
  const ProgramRun again = run_ballast({"quantize", target, folder.path("again.gguf"), "q4_0", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST(QuantizedModels, AGgufFileKeepsAllOfItsMetadata) {
  const TempFolder folder;
  const std::string source = test_file_path("gguf_models/qwen3/model.gguf"), target = folder.path("q.gguf");
  ASSERT_EQ(run_ballast({"quantize", source, target, "q4_0"}).exit_code, 0);
  const std::string before = run_ballast({"inspect", source, "--json"}).out;
  const std::string after = run_ballast({"inspect", target, "--json"}).out;
  for (const char* section : {"metadata", "scalars"}) {
    const auto kept = json_members(after, section);
    for (const auto& entry : json_members(before, section)) {
      if (entry.first == "general.file_type" || entry.first == "general.quantization_version") continue;
      EXPECT_THAT(kept, ::testing::Contains(entry));
    }
  }
  EXPECT_THAT(json_members(after, "scalars"),
              ::testing::Contains(::testing::Pair("general.file_type", HasSubstr("\"value\":2"))));
  forward_of(target);
}

TEST(QuantizedModels, AFolderAsDestinationHoldsAGgufFileAndRuns) {
  const TempFolder folder;
  const std::string target = folder.path("small") + "/";
  const std::string model = test_file_path("../../models/default/model.gptrs");
  const ProgramRun run = run_ballast({"quantize", model, target, "q8_0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(target + "model.gguf"));
  const ProgramRun text =
      run_ballast({"generate", target, "--prompt", "It is a truth", "--greedy", "--max-tokens", "4"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_FALSE(text.out.empty());
}

TEST(QuantizedModels, WhatWouldNotRunIsRefusedUnlessOnlyTheContainerIsMeant) {
  const TempFolder folder;
  const std::string source = test_file_path("hf/llama_plain"), target = folder.path("q.gptrsten");
  const ProgramRun refused = run_ballast({"quantize", source, target, "q8_0"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--container-only"));
  EXPECT_FALSE(std::filesystem::exists(target));
  const std::string plain = folder.path("plain.gguf");
  const ProgramRun kept = run_ballast({"quantize", source, plain, "q8_0", "--container-only"});
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("model.layers.0.self_attn.v_proj.weight"));
}

TEST(QuantizedModels, CalibrationNeedsGgufAndPaths) {
  const TempFolder folder;
  const std::string text = test_file_path("text/calibration.txt");
  const std::string model = test_file_path("../../models/default/model.gptrs");
  const ProgramRun other = run_ballast({"quantize", model, folder.path("q.gptrs"), "q8_0", "--calibrate", text});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("name a .gguf file"));
}

// ---------------------------------------------------------------- what other commands make of blocks

class BlockFile : public ::testing::Test {
 protected:
  void SetUp() override {
    source_ = write_model(folder_);
    file_ = folder_.path("blocks.gguf");
    ASSERT_EQ(run_ballast({"quantize", source_, file_, "--type", "q8_0"}).exit_code, 0);
  }

  TempFolder folder_;
  std::string source_;
  std::string file_;
};

TEST_F(BlockFile, ShowWritesValues) {
  const ProgramRun run = run_ballast({"show", file_, "blk.0.ffn.weight[0, :2]", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "tensors/0/dtype"), "\"q8_0\"");
  EXPECT_NEAR(std::stof(json_at(run.out, "tensors/0/values/0")), block_source("gaussian_64x1024")[0], 0.02F);
  EXPECT_THAT(run_ballast({"show", file_, "output.weight"}).out, HasSubstr("q8_0 [16, 512]"));
  const ProgramRun rows = run_ballast({"show", file_, "output.weight[3]", "--format", "raw"});
  EXPECT_EQ(rows.out.size(), 512U / 32 * 34);
  const ProgramRun npy = run_ballast({"show", file_, "output.weight[3]", "--format", "npy"});
  EXPECT_EQ(npy.out.size(), 128U + 512 * 4);
}

TEST_F(BlockFile, StatsAndVerifyLookAtValues) {
  const ProgramRun stats = run_ballast({"stats", file_, "--json"});
  EXPECT_EQ(stats.exit_code, 0) << stats.err;
  EXPECT_THAT(stats.out, Not(HasSubstr("\"measured\":false")));
  const ProgramRun verify = run_ballast({"verify", file_, "--level", "content"});
  EXPECT_EQ(verify.exit_code, 0) << verify.out;
}

TEST(BlockFiles, VerifyFindsScalesThatAreNotFinite) {
  const TempFolder folder;
  WritePlan plan;
  const ByteVector blocks = block_recording(DType::kQ4K, "overflow").blocks;
  plan.add_tensor(make_info("w", DType::kQ4K, {1, 256}), [&](ByteSink& sink) { return sink.write(blocks); });
  const std::string path = folder.path("bad.gguf");
  ASSERT_TRUE(write_archive(path, *find_format("gguf"), plan, {}));
  const ProgramRun run = run_ballast({"verify", path, "--level", "content"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("tensor \"w\" holds 256 NaN, 0 +Inf and 0 -Inf; the first is element 0"));
}

TEST_F(BlockFile, DiffComparesWithTheSource) {
  const ProgramRun apart = run_ballast({"diff", source_, file_, "--json"});
  EXPECT_EQ(apart.exit_code, 1) << apart.err;
  const ProgramRun near = run_ballast({"diff", source_, file_, "--atol", "0.1"});
  EXPECT_EQ(near.exit_code, 0) << near.out;
  EXPECT_EQ(run_ballast({"diff", file_, file_}).exit_code, 0);
}

TEST_F(BlockFile, ConvertDequantizesWhereTheTargetHasNoBlocks) {
  const std::string target = folder_.path("back.safetensors");
  const ProgramRun refused = run_ballast({"convert", file_, target});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--dequantize"));
  const ProgramRun half = run_ballast({"convert", file_, target, "--dequantize", "f16", "--json"});
  ASSERT_EQ(half.exit_code, 0) << half.err;
  EXPECT_EQ(json_at(half.out, "casts/0/from"), "\"q8_0\"");
  EXPECT_EQ(json_at(half.out, "casts/0/to"), "\"f16\"");
  EXPECT_EQ(run_ballast({"diff", source_, target, "--atol", "0.1"}).exit_code, 0);
  const std::string exact = folder_.path("exact.safetensors");
  ASSERT_EQ(run_ballast({"convert", file_, exact, "--dequantize", "f32"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"diff", file_, exact, "--rtol", "1e-12"}).exit_code, 0);
}

TEST_F(BlockFile, QuantisingAgainLeavesBlocksAlone) {
  const ProgramRun run = run_ballast({"quantize", file_, folder_.path("again.gguf"), "--type", "q4_0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("stays: quantised already"), HasSubstr("warning: nothing was quantised")));
}

TEST(QuantizeCommand, SaysWhenAndWhyNothingWasQuantised) {
  const TempFolder folder;
  const std::string source = write_tensors(folder, "vectors.safetensors", {{"a", {1, 2, 3}}, {"b", {4}}});
  const ProgramRun run = run_ballast({"quantize", source, folder.path("q.gguf"), "q4_0", "--container-only", "-q"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("warning: nothing was quantised: 2 tensors ("));
}

}  // namespace
}  // namespace ballast::testing
