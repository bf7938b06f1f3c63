#include "tests/support/torch_recordings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ballast/archive/write.h"
#include "ballast/base/counter_random.h"
#include "ballast/base/json.h"
#include "ballast/edit/huggingface.h"
#include "ballast/io/parallel.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

// ---------------------------------------------------------------- reading

template <typename Number>
Status read_numbers(JsonReader& json, std::vector<Number>& numbers) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(const double number, json.read_double());
    numbers.push_back(static_cast<Number>(number));
  }
}

Status read_tensors(JsonReader& json, std::vector<TorchTensor>& tensors) {
  BALLAST_CHECK(json.enter_object());
  std::string name;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(name));
    if (!more) return {};
    BALLAST_TRY(const auto dims, json.read_u64_array());
    tensors.push_back({name, Shape(dims)});
  }
}

Status read_runs(JsonReader& json, std::vector<TorchImages>& runs) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more_runs, json.next_element());
    if (!more_runs) return {};
    TorchImages& run = runs.emplace_back();
    BALLAST_CHECK(json.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) break;
      if (key == "images") BALLAST_CHECK(read_numbers(json, run.dims));
      else if (key == "logits") BALLAST_CHECK(read_numbers(json, run.logits));
      else BALLAST_CHECK(json.skip_value());
    }
  }
}

Status read_recording_field(JsonReader& json, const std::string& key, TorchRecording& recording) {
  if (key == "tensors") return read_tensors(json, recording.tensors);
  if (key == "runs") return read_runs(json, recording.runs);
  if (key == "config") return assign(recording.config, json.read_string());
  if (key == "tokens") return read_numbers(json, recording.tokens);
  if (key == "argmax") return read_numbers(json, recording.argmax);
  if (key == "written") return read_numbers(json, recording.written);
  if (key == "log_sum_exp") return read_numbers(json, recording.log_sum_exp);
  if (key == "logits") return read_numbers(json, recording.logits);
  if (key == "rows") return read_numbers(json, recording.rows);
  if (key == "stride") return assign(recording.stride, json.read_u64());
  return json.skip_value();
}

Status read_recording(JsonReader& json, TorchRecording& recording) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return json.finish();
    BALLAST_CHECK(read_recording_field(json, key, recording));
  }
}

// ---------------------------------------------------------------- weights

struct Rule {
  double offset;
  double amplitude;
};

// As `rule` in tests/interop/torch_weights.py, line by line.
Rule rule_of(std::string_view name, const Shape& shape) {
  if (name == "patches") return {0, 2};
  if (name == "noise") return {0, 0.5};
  if (name.ends_with("running_var")) return {1, 0.5};
  if (name.ends_with("running_mean")) return {0, 0.25};
  if (name.ends_with("wte.weight")) return {0, 0.1875};
  if (name.ends_with("wpe.weight")) return {0, 2};
  if (shape.rank() == 4) return {0, std::sqrt(6.0 / static_cast<double>(shape[1] * shape[2] * shape[3]))};
  if (shape.rank() == 2) {
    if (!name.starts_with("transformer.")) return {0, std::sqrt(3.0 / static_cast<double>(shape[1]))};
    const double gain = name.ends_with("c_proj.weight") ? 0.5 : 1.0;
    return {0, gain * std::sqrt(3.0 / static_cast<double>(shape[0]))};
  }
  if (name.ends_with("bias")) return {0, 0.125};
  return name.ends_with(".bn2.weight") ? Rule{0.25, 0.125} : Rule{1, 0.25};
}

uint64_t fnv1a(std::string_view text) {
  uint64_t state = 0xCBF29CE484222325;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return state;
}

}  // namespace

std::vector<float> seeded_values(const std::string& name, const Shape& shape) {
  const auto [wide_offset, wide_amplitude] = rule_of(name, shape);
  const auto offset = static_cast<float>(wide_offset), amplitude = static_cast<float>(wide_amplitude);
  const uint64_t seed = fnv1a(name), count = *shape.element_count();
  std::vector<float> values(count);
  constexpr uint64_t kPiece = 1 << 18;
  const Status status = parallel_for((count + kPiece - 1) / kPiece, 0, [&](size_t piece) -> Status {
    const uint64_t end = std::min(count, (piece + 1) * kPiece);
    for (uint64_t i = piece * kPiece; i < end; ++i) {
      const float unit = static_cast<float>(counter_random(seed, i) >> 40) * 0x1p-23F - 1.0F;
      values[i] = offset + amplitude * unit;
    }
    return {};
  });
  EXPECT_TRUE(status);
  return values;
}

std::vector<float> seeded_images(const std::vector<uint64_t>& dims) {
  constexpr uint64_t kPatches = 8;  // a side
  const uint64_t planes = dims[0] * dims[1], height = dims[2], width = dims[3];
  std::vector<float> pixels = seeded_values("noise", Shape(dims));
  const std::vector<float> patches = seeded_values("patches", {dims[0], dims[1], kPatches, kPatches});
  for (uint64_t row = 0; row < planes * height; ++row) {
    const uint64_t patch_row = row / height * kPatches + row % height * kPatches / height;
    for (uint64_t x = 0; x < width; ++x)
      pixels[row * width + x] += patches[patch_row * kPatches + x * kPatches / width];
  }
  return pixels;
}

TorchRecording torch_recording(const std::string& name) {
  const std::string text = read_text_file(test_file_path("torch/" + name + ".json"));
  JsonReader json(text, name);
  TorchRecording recording;
  const Status status = read_recording(json, recording);
  if (status) return recording;
  ADD_FAILURE() << status.error().message;
  std::abort();
}

std::string write_imported(const TempFolder& folder, const std::string& name, const TorchRecording& recording) {
  WritePlan plan;
  for (const TorchTensor& tensor : recording.tensors) {
    plan.add_tensor(make_info(tensor.name, DType::kF32, tensor.shape), [tensor](ByteSink& sink) {
      const std::vector<float> values = seeded_values(tensor.name, tensor.shape);
      return sink.write(std::as_bytes(std::span(values)));
    });
  }
  HuggingFaceOptions options;
  options.name_gelu = true;
  if (!recording.config.empty()) options.config_text = recording.config;
  std::vector<std::string> notes;
  const auto imported = huggingface_to_gptrs(plan, options, notes);
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().message);
  const std::string path = folder.path(name + ".gptrs");
  WriteSettings settings;
  settings.commit.sync = false;
  const auto report = write_archive(path, *find_format("gptrs-checkpoint"), plan, settings);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return path;
}

}  // namespace ballast::testing
