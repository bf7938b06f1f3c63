#include "tests/support/recorded_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/formats/gptrs/gptrs_index.h"
#include "tests/support/read_floats.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

std::string recorded_model_path(const std::string& name) { return test_file_path("gptrs/" + name + "/model.gptrs"); }

std::string default_model_file() { return test_file_path("../../models/default/model.gptrs"); }

std::unique_ptr<LoadedModel> load_or_die(const std::string& path, const LoadOptions& options) {
  auto model = load_model(path, options);
  if (model) return std::move(*model);
  ADD_FAILURE() << model.error().message;
  std::abort();
}

std::string load_failure(const std::string& path, const LoadOptions& options) {
  const auto model = load_model(path, options);
  EXPECT_FALSE(model) << path << " loads";
  return model ? "" : model.error().message;
}

RecordedTensor recorded_tensor(const std::string& file, const std::string& name) {
  const auto archive = open_archive(test_file_path("gptrs/" + file));
  EXPECT_TRUE(archive) << file;
  if (!archive) return {};
  const auto index = archive->find(name);
  EXPECT_TRUE(index) << file << " has no " << name;
  if (!index) return {};
  const auto payload = archive->payload(*index);
  EXPECT_TRUE(payload);
  const Shape& shape = archive->tensors()[*index].shape;
  RecordedTensor recorded{{shape.dims().begin(), shape.dims().end()}, {}};
  recorded.values.resize(payload->bytes().size() / sizeof(float));
  std::memcpy(recorded.values.data(), payload->bytes().data(), payload->bytes().size());
  return recorded;
}

namespace {

// The distance to the next f32 away from zero.
double ulp_of(float x) {
  const float size = std::abs(x);
  return static_cast<double>(std::nextafter(size, HUGE_VALF)) - static_cast<double>(size);
}

}  // namespace

double largest_difference(const Tensor& tensor, const RecordedTensor& recorded, int free_ulps) {
  EXPECT_TRUE(std::ranges::equal(tensor.dims().span(), recorded.dims)) << tensor.dims().to_string();
  if (tensor.count() != recorded.values.size()) return HUGE_VAL;
  const std::vector<float> values = read_floats(tensor);
  if (values.size() != recorded.values.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < recorded.values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - static_cast<double>(recorded.values[i]));
    if (std::isnan(difference)) return difference;
    if (difference <= free_ulps * ulp_of(recorded.values[i])) continue;
    largest = std::max(largest, difference);
  }
  return largest;
}

const std::vector<RecordedForward>& recorded_forwards() {
  static const std::vector<RecordedForward> all = {
      {"gpt_base", "forward_0.gptrsten", {7}},
      {"gpt_base", "forward_1.gptrsten", {5, 17, 300, 2, 2, 319}},
      {"gpt_base", "forward_2.gptrsten", {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                          32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47}},
      {"gpt_12layer", "forward_0.gptrsten", {1, 2, 3}},
      {"gpt_12layer", "forward_1.gptrsten", {63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48}},
      {"gpt_wide", "forward_0.gptrsten", {319, 0, 77}},
      {"gpt_wide",
       "forward_1.gptrsten",
       {100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121,
        122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143,
        144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 162, 163}},
      {"gpt_micro", "forward_0.gptrsten", {1, 2, 3, 18}},
      {"ministral_yarn", "forward_0.gptrsten", {9}},
      {"ministral_yarn", "forward_1.gptrsten", {1, 22, 300, 4, 4, 319, 8}},
      {"ministral_yarn", "forward_2.gptrsten", {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                                                6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7}},
      {"ministral_linear", "forward_0.gptrsten", {3}},
      {"ministral_linear", "forward_1.gptrsten", {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
  };
  return all;
}

const std::vector<RecordedText>& recorded_texts() {
  static const std::vector<RecordedText> all = {
      {"gpt_base",
       {7},
       {89, 316, 316, 118, 118, 118, 40, 179, 155, 179, 40, 237},
       {13, 48},
       "generate_0_steps.gptrsten"},
      {"gpt_base",
       {40, 41, 42, 43, 44},
       {229, 229, 220, 179, 299, 229, 179, 269, 237, 175, 237, 295, 316, 44,  295, 179, 269, 82,  265, 262,
        260, 60,  237, 175, 319, 237, 302, 140, 193, 237, 175, 83,  89,  237, 175, 60,  237, 175, 60,  237,
        175, 10,  11,  83,  237, 237, 175, 272, 237, 175, 60,  171, 272, 237, 175, 60,  237, 237, 83,  89},
       {},
       ""},
      {"gpt_12layer", {3, 9}, {5, 28, 5, 14, 27, 27, 14, 40, 27, 27, 40, 5, 40, 11}, {}, "generate_0_steps.gptrsten"},
      {"gpt_wide",
       {10, 20, 30, 40},
       {312, 244, 103, 60, 35, 301, 274, 103, 77, 0, 25, 302, 237, 196, 244, 103, 252, 294, 262, 97, 93, 20, 103, 231},
       {64},
       "generate_0_steps.gptrsten"},
      {"gpt_micro",
       {3},
       {8, 8, 8, 15, 15, 15, 2, 5, 8, 2, 16, 8, 13, 0, 15, 15, 2, 5, 13, 15},
       {},
       "generate_0_steps.gptrsten"},
      {"ministral_yarn",
       {9, 8, 7},
       {145, 145, 145, 145, 145, 145, 145, 145, 264, 316, 235, 174, 285, 318, 235, 163},
       {64},
       "generate_0_steps.gptrsten"},
      {"ministral_linear",
       {17, 18},
       {313, 156, 261, 310, 96,  74,  47,  257, 267, 188, 172, 313, 194, 181, 4,   165, 47,  156,
        252, 263, 92,  156, 27,  30,  114, 218, 303, 91,  58,  73,  42,  158, 245, 136, 91,  188,
        17,  89,  267, 98,  170, 74,  115, 5,   71,  306, 310, 181, 43,  17,  276, 261, 310, 260,
        253, 43,  191, 145, 159, 163, 27,  220, 219, 248, 89,  150, 199, 220, 256, 184},
       {},
       ""},
      {"ministral_linear", {5}, {50, 160, 136, 256, 231, 83, 149, 181, 267, 311}, {}, "generate_1_steps.gptrsten"},
  };
  return all;
}

// ---------------------------------------------------------------- changed models

std::string write_changed_model(const TempFolder& folder, const std::string& model,
                                const std::function<void(WritePlan& plan)>& change) {
  const auto archive = open_archive(recorded_model_path(model));
  EXPECT_TRUE(archive) << model;
  WritePlan plan = make_plan(*archive);
  change(plan);
  const std::string path = folder.path("changed.gptrs");
  WriteSettings settings;
  settings.commit.overwrite = true;
  const auto report = write_archive(path, *find_format("gptrs-checkpoint"), plan, settings);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return path;
}

size_t tensor_index(const WritePlan& plan, const std::string& name) {
  const auto& tensors = plan.description.tensors;
  const auto at = std::ranges::find(tensors, name, &TensorInfo::name);
  EXPECT_NE(at, tensors.end()) << name;
  return static_cast<size_t>(at - tensors.begin());
}

// ---------------------------------------------------------------- image models

namespace {

// FNV-1a over the name, xor seed times the golden ratio; from there splitmix64; 24 bits of each output as [-1, 1).
std::vector<float> rule_values(const std::string& name, const Shape& shape, uint64_t seed, float scale) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  uint64_t state = 0xCBF29CE484222325;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  state ^= seed * kGolden;
  const uint64_t count = *shape.element_count();
  const double fan_in = static_cast<double>(count) / static_cast<double>(shape[0]);
  const float amplitude = shape.rank() > 1 ? static_cast<float>(std::sqrt(6.0 / fan_in)) : 0.1F;
  std::vector<float> values(count);
  for (float& value : values) {
    state += kGolden;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    value = (static_cast<float>(z >> 40) * 0x1p-23F - 1.0F) * amplitude * scale;
  }
  return values;
}

using Shapes = std::map<std::string, Shape>;  // in the order of the names, as gpt.rs writes them

void add_conv_shapes(Shapes& shapes, const std::string& name, uint64_t out, uint64_t in, uint64_t kernel) {
  shapes[name + ".weight"] = {out, in, kernel, kernel};
  shapes[name + ".bias"] = {out};
}

Shapes resnet34_shapes() {
  Shapes shapes;
  add_conv_shapes(shapes, "conv1", 64, 3, 7);
  uint64_t in = 64;
  constexpr std::pair<uint64_t, int> kStages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  for (int s = 0; s < 4; ++s) {
    const auto [out, blocks] = kStages[s];
    for (int b = 0; b < blocks; ++b) {
      const std::string name = fmt::format("layer{}.{}", s + 1, b);
      add_conv_shapes(shapes, name + ".conv1", out, b == 0 ? in : out, 3);
      add_conv_shapes(shapes, name + ".conv2", out, out, 3);
      if (b == 0 && s > 0) add_conv_shapes(shapes, name + ".downsample", out, in, 1);
    }
    in = out;
  }
  shapes["fc.weight"] = {1000, 512};
  shapes["fc.bias"] = {1000};
  return shapes;
}

Shapes mobilenet_v2_shapes() {
  struct Stage {
    uint64_t expansion, out;
    int blocks;
  };
  constexpr Stage kStages[] = {{1, 16, 1}, {6, 24, 2}, {6, 32, 3}, {6, 64, 4}, {6, 96, 3}, {6, 160, 3}, {6, 320, 1}};
  Shapes shapes;
  add_conv_shapes(shapes, "stem", 32, 3, 3);
  uint64_t in = 32;
  int index = 0;
  for (const auto& [expansion, out, blocks] : kStages) {
    for (int b = 0; b < blocks; ++b, ++index, in = out) {
      const std::string name = fmt::format("blocks.{}", index);
      const uint64_t hidden = in * expansion;
      if (expansion != 1) add_conv_shapes(shapes, name + ".expand", hidden, in, 1);
      add_conv_shapes(shapes, name + ".depthwise", hidden, 1, 3);
      add_conv_shapes(shapes, name + ".project", out, hidden, 1);
    }
  }
  add_conv_shapes(shapes, "head", 1280, 320, 1);
  shapes["classifier.weight"] = {1000, 1280};
  shapes["classifier.bias"] = {1000};
  return shapes;
}

}  // namespace

std::string write_rule_checkpoint(const TempFolder& folder, const std::string& kind, uint64_t seed) {
  const bool resnet = kind == "resnet34";
  // The last convolution of each block is smaller, so that activations stay small.
  const std::string quiet = resnet ? ".conv2.weight" : ".project.weight";
  const float quiet_scale = resnet ? 0.25F : 0.5F;
  WritePlan plan;
  plan.description.format = "gptrs-checkpoint";
  plan.description.config =
      ModelConfig{"gptrs", fmt::format(R"({{"kind":"{}","config":{{"num_classes":1000}}}})", kind)};
  for (const auto& [name, shape] : resnet ? resnet34_shapes() : mobilenet_v2_shapes()) {
    TensorInfo info = make_info(name, DType::kF32, shape);
    info.set_stored_form(std::string(kGptrsZeroIdForm));
    const float scale = name.ends_with(quiet) ? quiet_scale : 1.0F;
    plan.add_tensor(std::move(info), [name = name, shape = shape, seed, scale](ByteSink& sink) {
      const auto values = rule_values(name, shape, seed, scale);
      return sink.write(std::as_bytes(std::span(values)));
    });
  }
  const std::string path = folder.path(kind + ".gptrs");
  const auto report = write_archive(path, *find_format("gptrs-checkpoint"), plan, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return path;
}

}  // namespace ballast::testing
