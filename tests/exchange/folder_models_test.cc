// Models of GGUF files as Hugging Face folders: the same numbers, the same texts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/device/host_access.h"
#include "ballast/edit/quantize.h"
#include "ballast/models/config/decoder_config.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"
#include "tests/support/written_folder.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WrittenFolders : public ::testing::TestWithParam<RecordedGguf> {
 protected:
  void SetUp() override {
    const Status written = write_as_folder(GetParam().path, folder_.path("out"));
    ASSERT_TRUE(written) << written.error().message;
  }
  std::string path() const { return folder_.path("out"); }

 private:
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Every, WrittenFolders, ::testing::ValuesIn(recorded_ggufs()),
                         [](const auto& file) { return file.param.name; });

double largest_distance(const Tensor& a, const Tensor& b) {
  return largest_difference(a, {{b.dims().span().begin(), b.dims().span().end()},
                                {host_data<const float>(b), host_data<const float>(b) + b.count()}});
}

// Llama 3's divisors of frequencies stand in the file as f32, computed in f32; config.json has what they follow from.
constexpr double kDivisorTolerance = 5e-5;

TEST_P(WrittenFolders, HoldEveryWeightAndGiveTheLogitsOfTheGgufFile) {
  const auto model = load_or_die(path()), original = load_or_die(GetParam().path);
  const auto exact = load_or_die(path(), {.numerics = Numerics::kExact});
  EXPECT_THAT(model->report().unused, IsEmpty());
  const RecordedDecoder recorded = read_recorded_decoder(GetParam().recording);
  for (const RecordedInput& input : recorded.inputs) {
    const auto logits = model->forward(TokenInput{input.ids}), expected = original->forward(TokenInput{input.ids});
    ASSERT_TRUE(logits && expected);
    const bool has_divisors = GetParam().name.starts_with("llama_rope_llama3");
    EXPECT_LE(largest_distance(*logits, *expected), has_divisors ? kDivisorTolerance : 0)
        << input.ids.size() << " tokens";
    const auto precise = exact->forward(TokenInput{input.ids});
    ASSERT_TRUE(precise);
    EXPECT_LE(recorded.logit_distance(*precise, input), 1e-4);
  }
}

TEST_P(WrittenFolders, WriteTheTextsOfTransformersWithAndWithoutACache) {
  expect_recorded_texts(*load_or_die(path()), read_recorded_decoder(GetParam().recording));
}

TEST_P(WrittenFolders, HoldNothingButWhatTransformersReads) {
  const auto archive = open_archive(path());
  ASSERT_TRUE(archive);
  for (const MetaEntry& entry : archive->description().metadata) {
    EXPECT_EQ(entry.key, "format");
    EXPECT_EQ(std::get<std::string>(entry.value), "pt");
  }
  for (const TensorInfo& tensor : archive->tensors()) {
    EXPECT_THAT(tensor.name, Not(AllOf(HasSubstr("blk."), HasSubstr("rope"))));
  }
}

// ---------------------------------------------------------------- what few files have

// A file of tests/data/gguf_models with something changed.
std::string write_changed_gguf(const TempFolder& folder, const std::string& name,
                               const std::function<void(WritePlan& plan)>& change) {
  const auto archive = open_archive(test_file_path("gguf_models/" + name + "/model.gguf"));
  EXPECT_TRUE(archive) << name;
  if (!archive) return "";
  WritePlan plan = make_plan(*archive);
  change(plan);
  const auto report = write_archive(folder.path("changed.gguf"), *find_format("gguf"), plan, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return folder.path("changed.gguf");
}

void expect_same_logits(const std::string& gguf, const std::string& folder) {
  const Status written = write_as_folder(gguf, folder);
  ASSERT_TRUE(written) << written.error().message;
  const std::vector<TokenId> ids = {1, 5, 9, 2, 7, 7, 3, 4, 11, 12, 13, 40, 41, 42};
  const auto model = load_or_die(folder), original = load_or_die(gguf);
  const auto logits = model->forward(TokenInput{ids}), expected = original->forward(TokenInput{ids});
  ASSERT_TRUE(logits && expected);
  EXPECT_EQ(largest_distance(*logits, *expected), 0);
}

TEST(WrittenFolder, KeepsDivisorsThatFollowNoRuleAsAList) {
  const TempFolder folder;
  ByteVector divisors;
  const std::string gguf = write_changed_gguf(folder, "llama_rope_llama3", [&](WritePlan& plan) {
    const size_t at = tensor_index(plan, "rope_freqs.weight");
    for (uint64_t i = 0; i < plan.description.tensors[at].byte_size / 4; ++i) {
      const auto divisor = 1.0F + static_cast<float>(i * i % 5) / 8;
      const auto* bytes = reinterpret_cast<const std::byte*>(&divisor);
      divisors.insert(divisors.end(), bytes, bytes + sizeof divisor);
    }
    plan.providers[at] = [&divisors](ByteSink& sink) { return sink.write(divisors); };
  });
  expect_same_logits(gguf, folder.path("out"));
  EXPECT_THAT(read_text_file(folder.path("out/config.json")), HasSubstr(R"("rope_type": "longrope")"));
}

// Which transformers 5 insists on.
TEST(WrittenFolder, OfAGemmaHasAWholeNumberForTheScaleOfScores) {
  const TempFolder folder;
  ASSERT_TRUE(write_as_folder(test_file_path("gguf_models/gemma2_even/model.gguf"), folder.path("out")));
  EXPECT_THAT(read_text_file(folder.path("out/config.json")), HasSubstr("\"query_pre_attn_scalar\": 16,"));
}

TEST(WrittenFolder, OfALlamaWithWindowsInSomeLayersIsAMinistral) {
  const TempFolder folder;
  const std::string gguf = write_changed_gguf(folder, "mistral_window", [](WritePlan& plan) {
    constexpr std::array<uint32_t, 2> kPattern = {1, 0};
    plan.description.metadata.push_back({"llama.attention.sliding_window_pattern", MetaArray::of(kPattern)});
  });
  expect_same_logits(gguf, folder.path("out"));
  EXPECT_THAT(read_text_file(folder.path("out/config.json")), HasSubstr("MinistralForCausalLM"));
}

TEST(WrittenFolder, IsRefusedWhereTheClassHasNoSettingForWhatTheModelHas) {
  const TempFolder folder;
  const std::string gguf = write_changed_gguf(folder, "mistral_window", [](WritePlan& plan) {
    for (int layer = 0; layer < 2; ++layer) {
      for (const char* part : {"q", "k", "v"}) {
        const std::string matrix = fmt::format("blk.{}.attn_{}", layer, part);
        const uint64_t rows = plan.description.tensors[tensor_index(plan, matrix + ".weight")].shape[0];
        plan.add_tensor(make_info(matrix + ".bias", DType::kF32, Shape{rows}),
                        [rows](ByteSink& sink) { return sink.write(ByteVector(static_cast<size_t>(rows) * 4)); });
      }
    }
  });
  const Status refused = write_as_folder(gguf, folder.path("out"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("biases"), HasSubstr("MistralForCausalLM")));
}

// ---------------------------------------------------------------- what must be chosen, and what cannot be

TEST(WrittenFolder, OfAQuantisedFileNeedsATypeForItsWeights) {
  const TempFolder folder;
  const Status refused = write_as_folder(test_file_path("gguf/tiny/tiny_llama.q8_0.gguf"), folder.path("out"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLossy);
  EXPECT_THAT(refused.error().message, HasSubstr("q8_0"));
  EXPECT_EQ(refused.error().remedies, Remedy::kDequantize);
}

// Rows move while they are packed, and are unpacked by whatever edit comes next.
TEST(WrittenFolder, OfAQuantisedFileMayBeUnpackedByAnEditOfTheUser) {
  const std::string source = test_file_path("gguf/tiny/tiny_llama.q8_0.gguf");
  const auto archive = open_archive(source);
  const auto plan = plan_folder({source, *archive});
  ASSERT_TRUE(plan) << plan.error().message;
  ConvertOptions options;
  options.edits = plan->edits;
  options.edits.push_back(dequantize_tensors(DType::kF32));
  const TempFolder by_user, by_plan;
  const auto report =
      convert_archive(*archive, by_user.path("model.safetensors"), *find_format("safetensors"), options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(write_as_folder(source, by_plan.path(), {.dequantize = DType::kF32}));
  EXPECT_EQ(read_text_file(by_user.path("model.safetensors")), read_text_file(by_plan.path("model.safetensors")));
}

// GPT-2's matrices are transposed, which packed ones cannot be.
TEST(WrittenFolder, OfAQuantisedFileComputesWhatTheFileDoes) {
  const std::vector<TokenId> ids = {1, 5, 9, 2, 7, 7, 3};
  for (const char* name : {"tiny_llama.q8_0", "tiny_llama.q4_0", "tiny_gpt2.q8_0", "tiny_qwen2.q8_0"}) {
    const TempFolder folder;
    const std::string source = test_file_path(fmt::format("gguf/tiny/{}.gguf", name));
    const Status written = write_as_folder(source, folder.path("out"), {.dequantize = DType::kF32});
    ASSERT_TRUE(written) << written.error().message;
    const auto model = load_or_die(folder.path("out"));
    const auto original = load_or_die(source, {.numerics = Numerics::kExact});
    const auto logits = model->forward(TokenInput{ids}), expected = original->forward(TokenInput{ids});
    ASSERT_TRUE(logits && expected);
    EXPECT_LE(largest_distance(*logits, *expected), 1e-4) << name;
  }
}

TEST(WrittenFolder, NamesTheTypeThatLaterEditsGiveTheWeights) {
  const auto archive = open_archive(test_file_path("gguf/tiny/tiny_llama.q8_0.gguf"));
  ASSERT_TRUE(archive);
  const auto config = [&](const FolderOptions& options) {
    const auto plan = plan_folder({"tiny.gguf", *archive}, options);
    return plan ? plan->companions.front().contents : plan.error().message;
  };
  EXPECT_THAT(config({.dequantize = DType::kBF16}), HasSubstr(R"("torch_dtype": "bfloat16")"));
  EXPECT_THAT(config({.dequantize = DType::kBF16, .dtype = DType::kF16}), HasSubstr(R"("torch_dtype": "float16")"));
}

TEST(WrittenFolder, IsRefusedWhereATensorHasNoPlaceInIt) {
  const auto archive = open_archive(test_file_path("gguf_models/qwen3/model.gguf"));
  ASSERT_TRUE(archive);
  const TempFolder folder;
  WritePlan plan = make_plan(*archive);
  plan.description.tensors.back().name = "blk.0.surprise.weight";
  ASSERT_TRUE(write_archive(folder.path("odd.gguf"), *find_format("gguf"), plan, {}));
  const Status refused = write_as_folder(folder.path("odd.gguf"), folder.path("out"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is missing"));
}

TEST(WrittenFolder, IsRefusedForAnArchitectureThatIsNotKnown) {
  const TempFolder folder;
  const Status refused =
      write_as_folder(test_file_path("gguf/quant/q8_0.gguf"), folder.path("out"), {.dequantize = DType::kF32});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("there is no architecture \"quant-oracle\""));
}

TEST(WrittenFolder, NeedsEveryTensorOfTheModel) {
  const std::string source = test_file_path("gguf_models/qwen3/model.gguf");
  const auto archive = open_archive(source);
  const auto plan = plan_folder({source, *archive});
  ASSERT_TRUE(plan);
  ConvertOptions options;
  options.edits = plan->edits;
  options.exclude = {"ffn_down"};
  const TempFolder folder;
  const auto refused = convert_archive(*archive, folder.path("m.safetensors"), *find_format("safetensors"), options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("blk.0.ffn_down.weight\" was left out"));
}

}  // namespace
}  // namespace ballast::testing
