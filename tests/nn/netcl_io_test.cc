#include "ballast/nn/netcl_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::netcl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::netcl_expectation;
using testing::netcl_path;
using testing::read_text_file;
using testing::recorded_array;
using testing::TempFolder;

LoadedModel loaded(const std::string& path, const LoadModelOptions& options = {}) {
  auto model = load_model(path, options);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model ? std::move(*model) : LoadedModel{};
}

std::vector<std::byte> snapshot(nn::Sequential& model) {
  std::vector<std::byte> all;
  for (const auto& tensor : model.state_dict()) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  return all;
}

// How many files this process has open or mapped whose name has this in it.
size_t open_or_mapped(const std::string& part) {
  size_t found = 0;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failure)) {
    found += std::filesystem::read_symlink(entry.path(), failure).string().find(part) != std::string::npos ? 1 : 0;
  }
  const std::string maps = read_text_file("/proc/self/maps");
  return found + (maps.find(part) != std::string::npos ? 1 : 0);
}

// A file like mlp_basic.netcl with some tensors changed.
std::string edited_model(const TempFolder& folder, const std::function<void(WritePlan&)>& edit) {
  const auto archive = open_archive(netcl_path("mlp_basic.netcl"));
  EXPECT_TRUE(archive);
  WritePlan plan = make_plan(*archive);
  edit(plan);
  const std::string path = folder.path("edited.netcl");
  WriteSettings settings;
  settings.commit.overwrite = true;
  const auto written = write_archive(path, kNetclDriver, plan, settings);
  EXPECT_TRUE(written) << (written ? "" : written.error().message);
  return path;
}

// ---------------------------------------------------------------- models

class RecordedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedModel, GivesTheOutputThatNetclGave) {
  const std::string expected = netcl_expectation(GetParam());
  const bool pair =
      std::string_view(GetParam()).starts_with("old_0_1_0") || std::string_view(GetParam()) == "old_0_1_3";
  for (const char* backend : {"reference", "cpu"}) {
    const LoadedModel model =
        loaded(netcl_path(pair ? GetParam() : std::string(GetParam()) + ".netcl"), {.backend = backend});
    ASSERT_NE(model.model, nullptr);
    EXPECT_THAT(model.report.warnings, IsEmpty());
    const auto input = recorded_array(expected, "input"), output = recorded_array(expected, "output_eval");
    const auto x = model.model->execution()->from_host(input.values, input.dims);
    ASSERT_TRUE(x);
    const auto y = model.model->run(*x);
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(y->dims(), output.dims);
    const auto values = *Execution::to_host(*y);
    ASSERT_EQ(values.size(), output.values.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], output.values[i], 1e-6) << backend << " " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Netcl, RecordedModel,
                         ::testing::Values("mlp_basic", "cnn_all_layers", "only_relu", "old_0_1_0", "old_0_1_3",
                                           "old_0_1_4", "old_0_2_7"),
                         [](const auto& value) { return std::string(value.param); });

TEST(SaveModel, WritesNetclsFilesByteForByte) {
  const TempFolder folder;
  for (const char* name : {"mlp_basic.netcl", "cnn_all_layers.netcl", "only_relu.netcl", "empty.netcl"}) {
    const LoadedModel model = loaded(netcl_path(name));
    ASSERT_NE(model.model, nullptr);
    const std::string path = folder.path("deep/down/" + std::string(name));
    const auto saved = save_model(*model.model, path);
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_EQ(read_text_file(path), read_text_file(netcl_path(name))) << name;
  }
}

TEST(SaveModel, NeverWritesTheLegacyPair) {
  const TempFolder folder;
  const LoadedModel model = loaded(netcl_path("old_0_1_3"));
  ASSERT_TRUE(save_model(*model.model, folder.path("again")));
  EXPECT_THAT(folder.names(), ElementsAre("again"));
  EXPECT_EQ(loaded(folder.path("again")).report.version, "2");
}

TEST(SaveModel, RefusesWhatNetclCannotLoadAndNamesAllOfIt) {
  const TempFolder folder;
  const std::string path = folder.write("model.netcl", "what was there");
  const auto model = nn::build_sequential(R"([{"type": "Embedding", "args": {"num_embeddings": 5, "embedding_dim": 2}},
    {"type": "ReLU"}, {"type": "GELU"}])");
  const auto refused = save_model(**model, path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("0 (Embedding), 2 (GELU)"));
  EXPECT_EQ(read_text_file(path), "what was there");
}

TEST(SaveModel, WritesAnEmbeddingOnRequestAndWarns) {
  const TempFolder folder;
  const auto model =
      nn::build_sequential(R"([{"type": "Embedding", "args": {"num_embeddings": 5, "embedding_dim": 2}}])");
  const auto saved = save_model(**model, folder.path("e.netcl"), {.allow_embedding = true});
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_THAT(saved->warnings, ElementsAre(HasSubstr("netcl's load_model refuses")));
  const LoadedModel again = loaded(folder.path("e.netcl"));
  EXPECT_EQ(snapshot(*again.model), snapshot(**model));
}

TEST(SaveSafetensors, HoldsLayersThatNetclCannotSave) {
  const TempFolder folder;
  const auto model = nn::build_sequential(R"([{"type": "Embedding", "args": {"num_embeddings": 5, "embedding_dim": 4}},
    {"type": "TransformerBlock", "args": {"d_model": 4, "num_heads": 2}}, {"type": "RMSNorm", "args": {"dim": 4}}])",
                                          {.seed = 3});
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(nn::save_safetensors(**model, folder.path("new/model.safetensors")));
  const LoadedModel again = loaded(folder.path("new/model.safetensors"), {.strict = true});
  ASSERT_NE(again.model, nullptr);
  EXPECT_EQ(again.model->config_json(), (*model)->config_json());
  EXPECT_EQ(snapshot(*again.model), snapshot(**model));
}

TEST(LoadModel, LooksForTheFileThenThePairThenTheSuffix) {
  const TempFolder folder;
  namespace fs = std::filesystem;
  fs::copy(netcl_path("mlp_basic.netcl"), folder.path("m.netcl"));
  EXPECT_EQ(loaded(folder.path("m")).report.version, "2");
  fs::copy(netcl_path("old_0_1_3.json"), folder.path("m.json"));
  fs::copy(netcl_path("old_0_1_3.npz"), folder.path("m.npz"));
  EXPECT_EQ(loaded(folder.path("m")).report.version, "1");
  fs::copy(netcl_path("mlp_basic.netcl"), folder.path("m"));
  EXPECT_EQ(loaded(folder.path("m")).report.version, "2");
  const auto missing = load_model(folder.path("nothing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(LoadModel, ListsAllShapesThatDoNotFit) {
  const TempFolder folder;
  static const ByteVector kFew(2 * 4);
  const std::string path = edited_model(folder, [](WritePlan& plan) {
    for (size_t i = 0; i < 2; ++i) {
      plan.description.tensors[i] = testing::make_info(plan.description.tensors[i].name, DType::kF32, {2});
      plan.providers[i] = [](ByteSink& sink) { return sink.write(kFew); };
    }
  });
  const auto refused = load_model(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("\"0:weight\""));
  EXPECT_THAT(refused.error().message, HasSubstr("\"0:bias\""));
  const LoadedModel kept = loaded(path, {.keep_mismatched = true, .seed = 5});
  ASSERT_EQ(kept.report.mismatched.size(), 2U);
  EXPECT_EQ(kept.report.mismatched[0].name, "0:weight");
  EXPECT_THAT(kept.report.warnings, Contains(HasSubstr("it keeps its first value")));
}

TEST(LoadModel, ToleratesWhatIsMissingOrUnclaimedAndSaysSo) {
  const TempFolder folder;
  const std::string path =
      edited_model(folder, [](WritePlan& plan) { plan.description.tensors[0].name = "99:weight"; });
  const LoadedModel model = loaded(path, {.seed = 5});
  EXPECT_THAT(model.report.missing, ElementsAre("0:weight"));
  EXPECT_THAT(model.report.unclaimed, ElementsAre("99:weight"));
  const auto fresh = nn::build_sequential(model.model->config_json(), {.seed = 5});
  EXPECT_EQ(model.model->memory().values<float>(0)[0], (*fresh)->memory().values<float>(0)[0]);
  const auto strict = load_model(path, {.strict = true});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(strict.error().message, HasSubstr("missing: \"0:weight\""));
  EXPECT_THAT(strict.error().message, HasSubstr("no layer has: \"99:weight\""));
}

TEST(LoadModel, KeepsTheTypesOfTheFileUnlessACastIsAskedFor) {
  const TempFolder folder;
  auto half = loaded(netcl_path("mlp_basic.netcl"));
  ASSERT_TRUE(half.model->to(DType::kF16));
  ASSERT_TRUE(save_model(*half.model, folder.path("half.netcl")));
  EXPECT_EQ(loaded(folder.path("half.netcl")).model->parameters()[0].dtype(), DType::kF16);
  EXPECT_EQ(loaded(folder.path("half.netcl"), {.dtype = DType::kF32}).model->parameters()[0].dtype(), DType::kF32);
}

TEST(LoadModel, WarnsOfAVersionAboveTwo) {
  const TempFolder folder;
  const std::string path = edited_model(folder, [](WritePlan& plan) {
    std::string& text = plan.description.config->text;
    text.replace(text.find("\"version\": 2"), 12, "\"version\": 3");
  });
  const LoadedModel model = loaded(path);
  EXPECT_EQ(model.report.version, "3");
  EXPECT_THAT(model.report.warnings, ElementsAre(HasSubstr("version 3")));
}

TEST(LoadModel, TakesNoMemoryForWhatAFileDoesNotHold) {
  const TempFolder folder;
  const std::string path = edited_model(folder, [](WritePlan& plan) {
    plan.description.config->text = R"({"type": "Sequential", "config": [{"type": "Linear", "args": )"
                                    R"({"in_features": 2000000000, "out_features": 2000000000}}], "version": 2})";
    keep_tensors(plan, std::vector<bool>(plan.description.tensors.size()));
  });
  const auto refused = load_model(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
}

TEST(LoadModel, LeavesNoFileOpenOrMapped) {
  const TempFolder folder;
  std::filesystem::copy(netcl_path("mlp_basic.netcl"), folder.path("closed.netcl"));
  const LoadedModel model = loaded(folder.path("closed.netcl"));
  EXPECT_EQ(open_or_mapped("closed.netcl"), 0U);
}

TEST(LoadModel, NeedsABackendThatThereIs) {
  const auto refused = load_model(netcl_path("mlp_basic.netcl"), {.backend = "metal"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("there is no backend \"metal\""));
  EXPECT_EQ(loaded(netcl_path("mlp_basic.netcl")).model->execution()->backend().name, "cpu");
}

// ---------------------------------------------------------------- parameters

struct Values {
  std::vector<StateTensor> tensors() {
    return {{testing::make_info("a", DType::kF32, {2, 3}), MutableByteSpan(reinterpret_cast<std::byte*>(a.data()), 24)},
            {testing::make_info("b", DType::kF32, {3}), MutableByteSpan(reinterpret_cast<std::byte*>(b.data()), 12)}};
  }
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9};
};

TEST(Params, ComeBackUnderTheirNames) {
  const TempFolder folder;
  Values from, to;
  to.a.assign(6, 0);
  to.b.assign(3, 0);
  const std::vector<std::string> names = {"fc.weight", "fc.bias"};
  ASSERT_TRUE(save_params(from.tensors(), folder.path("new/raw"), names));
  EXPECT_TRUE(std::filesystem::exists(folder.path("new/raw.npz")));
  for (const char* path : {"new/raw", "new/raw.npz", "new/raw.anything"}) {
    to.a.assign(6, 0);
    const auto read = load_params(to.tensors(), folder.path(path), names);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(to.a, from.a) << path;
  }
  EXPECT_EQ(to.b, from.b);
  EXPECT_EQ(open_or_mapped("raw.npz"), 0U);
}

TEST(Params, AreWrittenAsNetclWritesThem) {
  const TempFolder folder;
  const auto archive = open_archive(netcl_path("params_default.npz"));
  ASSERT_TRUE(archive);
  std::vector<ByteVector> payloads;
  std::vector<StateTensor> params;
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    const auto payload = archive->payload(i);
    payloads.emplace_back(payload->bytes().begin(), payload->bytes().end());
  }
  for (size_t i = 0; i < payloads.size(); ++i) params.push_back({archive->tensors()[i], payloads[i]});
  ASSERT_TRUE(save_params(params, folder.path("p.npz")));
  EXPECT_EQ(read_text_file(folder.path("p.npz")), read_text_file(netcl_path("params_default.npz")));
}

TEST(Params, MissingNamesAndOtherShapesAreErrorsThatChangeNothing) {
  const TempFolder folder;
  Values from, to;
  to.a.assign(6, 0);
  ASSERT_TRUE(save_params(from.tensors(), folder.path("p")));
  const auto missing = load_params(to.tensors(), folder.path("p"), std::vector<std::string>{"p0", "typo"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("\"typo\""));
  auto turned = to.tensors();
  turned[0].info.shape = {3, 2};
  const auto shape = load_params(turned, folder.path("p"));
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(shape.error().message, HasSubstr("[3, 2] in the model and [2, 3] in the file"));
  EXPECT_EQ(to.a, std::vector<float>(6, 0));
  auto first = to.tensors();
  first.resize(1);
  const auto unclaimed = load_params(first, folder.path("p"), {}, {.strict = true});
  ASSERT_FALSE(unclaimed);
  EXPECT_EQ(unclaimed.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unclaimed.error().message, HasSubstr("\"p1\""));
}

TEST(Params, KeepTheirTypesUnlessACastIsAskedFor) {
  const std::string path = netcl_path("params_dtypes.npz");
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  std::vector<ByteVector> values;
  for (const TensorInfo& info : archive->tensors()) values.emplace_back(info.byte_size);
  std::vector<StateTensor> same;
  for (size_t i = 0; i < values.size(); ++i) same.push_back({archive->tensors()[i], values[i]});
  ASSERT_TRUE(load_params(same, path));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(values[i], archive->payload(i)->bytes())) << archive->tensors()[i].name;
  }
  std::vector<StateTensor> others;
  std::vector<std::vector<float>> floats;
  for (const TensorInfo& info : archive->tensors()) floats.emplace_back(*info.shape.element_count());
  for (size_t i = 0; i < floats.size(); ++i) {
    others.push_back({testing::make_info("x", DType::kF32, archive->tensors()[i].shape),
                      MutableByteSpan(reinterpret_cast<std::byte*>(floats[i].data()), floats[i].size() * 4)});
  }
  const auto refused = load_params(others, path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("no cast was asked for"));
  EXPECT_TRUE(load_params(others, path, {}, {.cast = true}));
}

TEST(Params, NeedANameForEachAndNoneTwice) {
  const TempFolder folder;
  Values values;
  EXPECT_FALSE(save_params(values.tensors(), folder.path("p"), std::vector<std::string>{"one"}));
  EXPECT_FALSE(save_params(values.tensors(), folder.path("p"), std::vector<std::string>{"one", "one"}));
  EXPECT_THAT(folder.names(), IsEmpty());
}

// ---------------------------------------------------------------- checkpoints

TEST(Checkpoint, CarriesParametersStateAndConfig) {
  const TempFolder folder;
  Values from, to;
  to.a.assign(6, 0);
  const Checkpoint state{R"({"t": 3, "odd": NaN})", R"({"step": 1000, "lr": 0.001})"};
  for (const char* name : {"ck/iter_1000", "ck/v1.5", "ck/n.npz", "ck/m.pt"}) {
    ASSERT_TRUE(save_checkpoint(from.tensors(), folder.path(name), state)) << name;
    const auto read = load_checkpoint(to.tensors(), folder.path(name));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(to.a, from.a);
    EXPECT_EQ(read->checkpoint.optim_state, state.optim_state);
    EXPECT_EQ(read->checkpoint.config, state.config);
    EXPECT_THAT(read->warnings, IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path("ck/v1.5.npz")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("ck/v1.5.json")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("ck/n.json")));
}

TEST(Checkpoint, OfTwoDifferentSavesIsToldApart) {
  const TempFolder folder;
  Values from, to;
  ASSERT_TRUE(save_checkpoint(from.tensors(), folder.path("old"), {R"({"t": 1})", "{}"}));
  from.a[0] = 100;
  ASSERT_TRUE(save_checkpoint(from.tensors(), folder.path("new"), {R"({"t": 2})", "{}"}));
  std::filesystem::rename(folder.path("new.npz"), folder.path("old.npz"));  // as after a crash between two renames
  const auto torn = load_checkpoint(to.tensors(), folder.path("old"));
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(torn.error().message, HasSubstr("two different saves"));
  EXPECT_EQ(to.a[0], 1);
}

TEST(Checkpoint, OfNetclIsRead) {
  const TempFolder folder;
  const auto archive = open_archive(netcl_path("run.1.npz"));
  ASSERT_TRUE(archive);
  std::vector<ByteVector> values;
  std::vector<std::string> names;
  std::vector<StateTensor> params;
  for (const TensorInfo& info : archive->tensors()) {
    values.emplace_back(info.byte_size);
    names.push_back(info.name);
  }
  for (size_t i = 0; i < values.size(); ++i) params.push_back({archive->tensors()[i], values[i]});
  const auto split = load_checkpoint(params, netcl_path("run.1"), names);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->json, read_text_file(netcl_path("run.json")));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(values[i], archive->payload(i)->bytes()));
  }
}

TEST(Checkpoint, WithACutJsonIsAnErrorThatChangesNothing) {
  const auto archive = open_archive(netcl_path("broken_ckpt.npz"));
  ASSERT_TRUE(archive);
  std::vector<ByteVector> values;
  std::vector<StateTensor> params;
  std::vector<std::string> names;
  for (const TensorInfo& info : archive->tensors()) values.emplace_back(info.byte_size);
  for (size_t i = 0; i < values.size(); ++i) {
    params.push_back({archive->tensors()[i], values[i]});
    names.push_back(archive->tensors()[i].name);
  }
  const auto broken = load_checkpoint(params, netcl_path("broken_ckpt"), names);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  for (const ByteVector& value : values) EXPECT_EQ(value, ByteVector(value.size()));
}

TEST(Checkpoint, WithoutJsonGivesTheParametersAndAWarning) {
  const TempFolder folder;
  Values from;
  ASSERT_TRUE(save_params(from.tensors(), folder.path("bare")));
  const auto read = load_checkpoint(from.tensors(), folder.path("bare"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->json, "{}");
  EXPECT_EQ(read->warnings.size(), 1U);
}

}  // namespace
}  // namespace ballast::netcl
