// Folders of Hugging Face's as GGUF files, against what llama.cpp's own converter made of the same models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "ballast/archive/open.h"
#include "ballast/backends/backends.h"
#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/edit/tensor_stream.h"
#include "ballast/exchange/exchange.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

Archive opened(const std::string& path) {
  auto archive = open_archive(path);
  if (!archive) ADD_FAILURE() << archive.error().message;
  return archive ? *std::move(archive) : open_or_die(*find_format("gguf"), {});
}

// The file that convert would write.
std::string as_gguf(const std::string& folder, const std::string& to, std::vector<std::string>* notes = nullptr) {
  const Archive source = opened(folder);
  auto plan = plan_gguf({folder, source});
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  if (!plan) return to;
  if (notes != nullptr) *notes = plan->notes;
  ConvertOptions options;
  options.edits = plan->edits;
  const auto report = convert_archive(source, to, *find_format("gguf"), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  if (report && notes != nullptr) notes->insert(notes->end(), report->notes.begin(), report->notes.end());
  return to;
}

Error refusal(const std::string& folder) {
  const Archive source = opened(folder);
  const auto plan = plan_gguf({folder, source});
  EXPECT_FALSE(plan) << folder;
  return plan ? Error{} : plan.error();
}

ByteVector payload_of(const Archive& archive, size_t index) {
  ByteVector bytes(archive.tensors()[index].byte_size);
  EXPECT_TRUE(archive.read_into(index, bytes));
  return bytes;
}

void expect_same_tensors(const Archive& made, const Archive& recorded, bool in_order = true) {
  std::vector<std::string> names, recorded_names;
  for (const TensorInfo& tensor : made.tensors()) names.push_back(tensor.name);
  for (const TensorInfo& tensor : recorded.tensors()) recorded_names.push_back(tensor.name);
  if (!in_order) {
    std::ranges::sort(names);
    std::ranges::sort(recorded_names);
  }
  EXPECT_EQ(names, recorded_names);
  for (size_t i = 0; i < recorded.tensors().size(); ++i) {
    const TensorInfo& want = recorded.tensors()[i];
    const auto found = made.find(want.name);
    ASSERT_TRUE(found) << want.name;
    const TensorInfo& got = made.tensors()[*found];
    EXPECT_EQ(got.type_name(), want.type_name()) << want.name;
    EXPECT_EQ(got.shape.to_string(), want.shape.to_string()) << want.name;
    EXPECT_EQ(payload_of(made, *found), payload_of(recorded, i)) << want.name;
  }
}

std::string shown(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return std::to_string(*number);
  if (const auto* list = std::get_if<MetaArray>(&value)) return list->to_text(8);
  return "?";
}

// The recorded files have made-up tokens, and a name that the converter was told. Folders without a tokenizer get the
// number of tokens instead. Keys that were added to a recording by hand stand at its front, so order is not compared
// for files that have them.
void expect_same_metadata(const Archive& made, const Archive& recorded, bool in_order) {
  const auto counts = [&](const MetaEntry& entry) {
    const bool is_number = entry.key.ends_with(".vocab_size") &&
                           std::ranges::find(recorded.description().metadata, entry.key, &MetaEntry::key) ==
                               recorded.description().metadata.end();
    return !is_number && !entry.key.starts_with("tokenizer.") && entry.key != "general.name";
  };
  std::vector<MetaEntry> got, want;
  std::ranges::copy_if(made.description().metadata, std::back_inserter(got), counts);
  std::ranges::copy_if(recorded.description().metadata, std::back_inserter(want), counts);
  if (!in_order) {
    std::ranges::sort(got, {}, &MetaEntry::key);
    std::ranges::sort(want, {}, &MetaEntry::key);
  }
  for (size_t i = 0; i < std::max(got.size(), want.size()); ++i) {
    ASSERT_LT(i, got.size()) << "missing: " << want[i].key;
    ASSERT_LT(i, want.size()) << "more than the converter wrote: " << got[i].key;
    ASSERT_EQ(got[i].key, want[i].key);
    EXPECT_EQ(got[i], want[i]) << got[i].key << ": " << shown(got[i].value) << ", not " << shown(want[i].value);
  }
}

// ---------------------------------------------------------------- folders whose GGUF file was recorded

struct RecordedFile {
  std::string name;
  bool in_order = true;

  friend void PrintTo(const RecordedFile& file, std::ostream* out) { *out << file.name; }
};

class GgufOfFolder : public ::testing::TestWithParam<RecordedFile> {
 protected:
  std::string folder() const { return test_file_path("hf/" + GetParam().name); }
  std::string recorded() const { return test_file_path("gguf_models/" + GetParam().name + "/model.gguf"); }
};

INSTANTIATE_TEST_SUITE_P(Every, GgufOfFolder,
                         ::testing::Values(RecordedFile{"llama_rope_llama3"}, RecordedFile{"llama_rope_yarn"},
                                           RecordedFile{"mixtral"}, RecordedFile{"ministral3"}, RecordedFile{"smollm3"},
                                           RecordedFile{"qwen3"}, RecordedFile{"qwen3_moe"},
                                           RecordedFile{"qwen2_moe_shared"}, RecordedFile{"gemma3", false},
                                           RecordedFile{"phi3"}, RecordedFile{"phi3_longrope"}),
                         [](const auto& file) { return file.param.name; });

TEST_P(GgufOfFolder, HasTheTensorsOfLlamaCppsConverterByteForByte) {
  const TempFolder temp;
  expect_same_tensors(opened(as_gguf(folder(), temp.path("x.gguf"))), opened(recorded()));
}

TEST_P(GgufOfFolder, HasTheMetadataOfLlamaCppsConverterKeyByKey) {
  const TempFolder temp;
  expect_same_metadata(opened(as_gguf(folder(), temp.path("x.gguf"))), opened(recorded()), GetParam().in_order);
}

// ---------------------------------------------------------------- recordings without a folder

// The folder that a recorded file was made from: config from cases.json, tensors by undoing what the converter does.
class FolderOfRecording {
 public:
  FolderOfRecording(const std::string& name, const std::string& to) : to_(to) {
    fs::create_directories(to);
    const std::string config = config_of(name);
    std::ofstream(fs::path(to) / "config.json") << config;
    const auto description = describe_huggingface(config);
    if (!description) ADD_FAILURE() << description.error().message;
    else write(opened(test_file_path("gguf_models/" + name + "/model.gguf")), *description);
  }

 private:
  static std::string config_of(const std::string& name) {
    std::ifstream file(test_file_path("gguf_models/cases.json"));
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto cases = JsonObject::parse(text, "cases.json");
    JsonReader list(*cases->find("cases"), "cases.json");
    EXPECT_TRUE(list.enter_array());
    while (*list.next_element()) {
      const auto entry = JsonObject::parse(*list.read_raw(), "cases.json");
      if (**entry->find_text("name") != name) continue;
      const std::string type = model_type(**entry->find_text("class"));
      return R"({"model_type": ")" + type + "\", " + std::string(entry->find("config")->substr(1));
    }
    ADD_FAILURE() << name;
    return "";
  }

  static std::string model_type(const std::string& of) {
    if (of == "Gemma2ForCausalLM") return "gemma2";
    if (of == "Gemma3ForCausalLM") return "gemma3_text";
    if (of == "Phi3ForCausalLM") return "phi3";
    if (of == "Qwen3ForCausalLM") return "qwen3";
    return of == "LlamaForCausalLM" ? "llama" : "mistral";
  }

  void write(const Archive& file, const DecoderDescription& d) {
    WritePlan plan = make_plan(file);
    std::vector<bool> keep;
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
      TensorInfo& info = plan.description.tensors[i];
      const auto found = find_decoder_name(kGgufNaming, "", info.name);
      const auto part = found ? found->name->part : DecoderPart::kRopeDivisors;
      const DecoderName* name =
          d.naming->find(part == DecoderPart::kUp && d.family == "phi3" ? DecoderPart::kGateUp : part);
      keep.push_back(name != nullptr);
      if (name == nullptr) continue;
      info.name = decoder_param_name(*name, {"model.", found->layer, 0}, found->ending);
      const bool is_norm = info.name.find("norm") != std::string::npos;
      if (is_norm && d.norm_shift != 0) {
        plan.providers[i] = changed_values(plan.providers[i], []() -> Result<ChangeValue> {
          return ChangeValue([](float value, uint64_t) { return value - 1; });
        });
      }
      const bool paired = d.family == "llama" || d.family == "mistral";
      if (paired && (part == DecoderPart::kQuery || part == DecoderPart::kKey)) {
        std::vector<uint64_t> order;
        for (uint64_t c = 0; c < d.head_dim; ++c) order.push_back(c % (d.head_dim / 2) * 2 + c / (d.head_dim / 2));
        plan.providers[i] = reordered_rows(plan.providers[i], info.byte_size / info.shape[0], order);
      }
    }
    keep_tensors(plan, keep);
    plan.description.metadata.clear();
    const auto written =
        write_archive((fs::path(to_) / "model.safetensors").string(), *find_format("safetensors"), plan);
    if (!written) ADD_FAILURE() << written.error().message;
  }

  std::string to_;
};

class GgufOfRecording : public ::testing::TestWithParam<RecordedFile> {};
INSTANTIATE_TEST_SUITE_P(Every, GgufOfRecording,
                         ::testing::Values(RecordedFile{"gemma2_even"}, RecordedFile{"gemma3_sixth"},
                                           RecordedFile{"gemma3_full"}, RecordedFile{"phi4_mini"},
                                           RecordedFile{"qwen3_yarn"}, RecordedFile{"llama_linear"},
                                           RecordedFile{"mistral_window", false}),
                         [](const auto& file) { return file.param.name; });

TEST_P(GgufOfRecording, ComesBackWithTheSameTensorsAndMetadata) {
  const TempFolder temp;
  FolderOfRecording(GetParam().name, temp.path("folder"));
  const Archive made = opened(as_gguf(temp.path("folder"), temp.path("x.gguf")));
  const Archive recorded = opened(test_file_path("gguf_models/" + GetParam().name + "/model.gguf"));
  expect_same_metadata(made, recorded, GetParam().in_order);
  // The folder's norms are f32 beside bf16 matrices, and safetensors puts wider types first.
  expect_same_tensors(made, recorded, false);
}

// ---------------------------------------------------------------- running

// Every folder that GGUF has words for.
std::vector<std::string> runnable_folders() {
  return {"gemma3",
          "gpt2",
          "gpt2_torch",
          "llama_bf16",
          "llama_bias_headdim",
          "llama_plain",
          "llama_rope_linear",
          "llama_rope_llama3",
          "llama_rope_yarn",
          "llama_sharded",
          "llama_tied_llama3",
          "llama_torch_sharded",
          "ministral3",
          "mistral_swa",
          "mixtral",
          "phi3",
          "phi3_longrope",
          "qwen2",
          "qwen2_moe_shared",
          "qwen3",
          "qwen3_moe",
          "smollm2",
          "smollm2_torch",
          "smollm3"};
}

class GgufRuns : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, GgufRuns, ::testing::ValuesIn(runnable_folders()),
                         [](const auto& name) { return name.param; });

TEST_P(GgufRuns, GivesTheLogitsOfItsFolderBitForBit) {
  const TempFolder temp;
  const std::string folder = test_file_path("hf/" + GetParam());
  as_gguf(folder, temp.path("x.gguf"));
  const RecordedDecoder recorded = read_recorded_decoder("hf/" + GetParam());
  for (const Backend* backend : backends_to_test()) {
    const LoadOptions options{.backend = std::string(backend->name)};
    const auto before = load_or_die(folder, options);
    const auto after = load_or_die(temp.path("x.gguf"), options);
    EXPECT_THAT(after->report().unused, IsEmpty());
    for (const RecordedInput& input : recorded.inputs) {
      const auto want = before->forward(TokenInput{input.ids});
      const auto got = after->forward(TokenInput{input.ids});
      ASSERT_TRUE(want && got) << (got ? "" : got.error().message);
      EXPECT_TRUE(same_bits(*got, *want)) << backend->name << ", " << input.ids.size() << " tokens";
    }
  }
}

TEST_P(GgufRuns, WritesTheRecordedGreedyTexts) {
  const TempFolder temp;
  as_gguf(test_file_path("hf/" + GetParam()), temp.path("x.gguf"));
  expect_recorded_texts(*load_or_die(temp.path("x.gguf")), read_recorded_decoder("hf/" + GetParam()));
}

TEST(GgufPlan, MakesAFileOfABertThatGivesTheStatesOfItsFolderBitForBit) {
  const TempFolder temp;
  as_gguf(test_file_path("hf/bert"), temp.path("x.gguf"));
  const std::vector<TokenId> ids = {2, 17, 90, 45, 3};
  const auto before = load_or_die(test_file_path("hf/bert")), after = load_or_die(temp.path("x.gguf"));
  const auto want = before->forward(TokenInput{ids});
  const auto got = after->forward(TokenInput{ids});
  ASSERT_TRUE(want && got) << (got ? "" : got.error().message);
  EXPECT_TRUE(same_bits(*got, *want));
}

TEST(GgufPlan, KeepsTheTypesOfMatricesAndWidensVectors) {
  const TempFolder temp;
  const Archive made = opened(as_gguf(test_file_path("hf/llama_bf16"), temp.path("x.gguf")));
  for (const TensorInfo& tensor : made.tensors()) {
    EXPECT_EQ(tensor.dtype, tensor.shape.rank() == 1 ? DType::kF32 : DType::kBF16) << tensor.name;
  }
  const auto& metadata = made.description().metadata;
  const auto type = std::ranges::find(metadata, "general.file_type", &MetaEntry::key);
  ASSERT_NE(type, metadata.end());
  EXPECT_EQ(std::get<uint64_t>(type->value), 32U);
}

TEST(GgufPlan, SaysThatLlamaCppDoesNotReadTheWindowOfAMistral) {
  const TempFolder temp;
  std::vector<std::string> notes;
  as_gguf(test_file_path("hf/mistral_swa"), temp.path("x.gguf"), &notes);
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("the window of 8 tokens")));
}

TEST(GgufPlan, TakesIdsAloneWhereThereIsNoTokenizerAndSaysSo) {
  const TempFolder temp;
  std::vector<std::string> notes;
  as_gguf(test_file_path("hf/qwen3"), temp.path("x.gguf"), &notes);
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("takes token ids, and no text")));
}

// ---------------------------------------------------------------- what cannot be said

TEST(GgufPlan, RefusesDynamicRopeByName) {
  const Error error = refusal(test_file_path("hf/llama_rope_dynamic"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("dynamic scaling of rope"));
  EXPECT_THAT(error.message, HasSubstr("safetensors"));
}

TEST(GgufPlan, RefusesAFamilyThatLlamaCppDoesNotHave) {
  const Error error = refusal(test_file_path("hf/ministral_mixed"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("no architecture for ministral models"));
}

TEST(GgufPlan, RefusesAScaleOfScoresThatTheFileCannotSay) {
  const Error error = refusal(test_file_path("hf/gemma2"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("the scale of scores of layer 0"));
}

// gpt.rs computes the exact GELU; GPT-2, and llama.cpp with it, the one with tanh.
TEST(GgufPlan, TakesGptRssGptWithGpt2sGeluAndNoOther) {
  const TempFolder temp;
  const std::string path = test_file_path("gptrs/gpt_micro/model.gptrs");
  const Error error = refusal(path);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("the activation would be another one"));

  ConvertOptions with_tanh;
  with_tanh.config_text = opened(path).description().config->text;
  with_tanh.config_text->insert(with_tanh.config_text->find("\"vocab_size\""), "\"gelu\": \"tanh\", ");
  const std::string tanh = temp.path("tanh.gptrs");
  ASSERT_TRUE(convert_archive(opened(path), tanh, *find_format("gptrs-checkpoint"), with_tanh));
  as_gguf(tanh, temp.path("x.gguf"));
  const std::vector<TokenId> ids = {1, 5, 9, 2};
  const auto before = load_or_die(tanh), after = load_or_die(temp.path("x.gguf"));
  const auto want = before->forward(TokenInput{ids});
  const auto got = after->forward(TokenInput{ids});
  ASSERT_TRUE(want && got) << (got ? "" : got.error().message);
  EXPECT_TRUE(same_bits(*got, *want));
}

TEST(GgufPlan, RefusesAFileWithoutAConfig) {
  const Error error = refusal(test_file_path("hf/qwen3/expected.safetensors"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
}

TEST(GgufPlan, RefusesAModelWithoutOneOfItsTensors) {
  const TempFolder temp;
  const std::string folder = test_file_path("hf/llama_plain");
  const Archive source = opened(folder);
  const auto plan = plan_gguf({folder, source});
  ASSERT_TRUE(plan);
  ConvertOptions options;
  options.edits = plan->edits;
  options.exclude = {"layers.1.self_attn.k_proj"};
  const auto report = convert_archive(source, temp.path("x.gguf"), *find_format("gguf"), options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("model.layers.1.self_attn.k_proj.weight\" is missing"));
  EXPECT_FALSE(fs::exists(temp.path("x.gguf")));
}

}  // namespace
}  // namespace ballast::testing
