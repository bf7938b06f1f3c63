#include "tests/support/recorded_decoders.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ballast/base/json.h"
#include "tests/support/json_path.h"
#include "tests/support/read_floats.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

std::vector<TokenId> ids_at(const std::string& text, const std::string& path) {
  const std::string raw = json_at(text, path);
  if (raw.empty()) return {};
  JsonReader reader(raw, path);
  const auto numbers = reader.read_u64_array();
  EXPECT_TRUE(numbers) << path;
  return numbers ? std::vector<TokenId>(numbers->begin(), numbers->end()) : std::vector<TokenId>();
}

// Without its quotes.
std::string text_at(const std::string& text, const std::string& path) {
  const std::string raw = json_at(text, path);
  return raw.size() < 2 ? "" : raw.substr(1, raw.size() - 2);
}

RecordedTensor last_of(const Tensor& logits) {
  const uint64_t width = logits.dims()[1];
  const std::vector<float> all = read_floats(logits);
  if (all.size() < width) return {};
  return {{width}, {all.end() - static_cast<ptrdiff_t>(width), all.end()}};
}

}  // namespace

RecordedDecoder read_recorded_decoder(const std::string& place) {
  RecordedDecoder decoder{std::filesystem::path(place).filename().string(), place, test_file_path(place), {}, {}};
  const std::string text = read_text_file(decoder.path + "/expected.json");
  for (size_t i = 0; !json_at(text, fmt::format("inputs/{}", i)).empty(); ++i) {
    const std::string at = fmt::format("inputs/{}/", i);
    decoder.inputs.push_back({ids_at(text, at + "ids"), text_at(text, at + "logits"), text_at(text, at + "last_row"),
                              text_at(text, at + "hidden")});
  }
  for (size_t i = 0; !json_at(text, fmt::format("greedy/{}", i)).empty(); ++i) {
    const std::string at = fmt::format("greedy/{}/", i);
    RecordedContinuation one{ids_at(text, at + "prompt"), ids_at(text, at + "continuation"), {}, {}};
    one.recomputed = ids_at(text, at + "continuation_recomputed");
    if (one.recomputed.empty()) one.recomputed = one.cached;
    if (auto generated = ids_at(text, at + "continuation_generate"); !generated.empty()) one.cached = generated;
    one.until_stop = ids_at(text, at + "with_generation_config");
    decoder.texts.push_back(std::move(one));
  }
  return decoder;
}

RecordedTensor RecordedDecoder::tensor(const std::string& tensor_name) const {
  return recorded_tensor(fmt::format("../{}/expected.safetensors", place), tensor_name);
}

double RecordedDecoder::logit_distance(const Tensor& logits, const RecordedInput& input) const {
  if (!input.logits.empty()) return largest_difference(logits, tensor(input.logits));
  const RecordedTensor expected = tensor(input.last_row), got = last_of(logits);
  double largest = got.dims == expected.dims ? 0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(got.values.size(), expected.values.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(got.values[i]) - static_cast<double>(expected.values[i])));
  }
  return largest;
}

void PrintTo(const RecordedGguf& file, std::ostream* out) { *out << file.name; }

std::vector<RecordedGguf> recorded_ggufs() {
  std::vector<RecordedGguf> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test_file_path("gguf_models"))) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string model = entry.path().parent_path().filename().string(), file = entry.path().stem().string();
    const bool has_own = std::filesystem::exists(entry.path().parent_path() / "expected.json");
    files.push_back({.name = file == "model" ? model : model + "_" + file,
                     .path = entry.path().string(),
                     .recording = (has_own ? "gguf_models/" : "hf/") + model});
  }
  std::ranges::sort(files, {}, &RecordedGguf::name);
  return files;
}

const std::vector<RecordedDecoder>& recorded_decoders() {
  static const std::vector<RecordedDecoder> all = [] {
    std::vector<RecordedDecoder> found;
    for (const auto& entry : std::filesystem::directory_iterator(test_file_path("hf"))) {
      if (!entry.is_directory()) continue;  // recordings over all of them lie beside the folders
      RecordedDecoder decoder = read_recorded_decoder("hf/" + entry.path().filename().string());
      if (!decoder.texts.empty()) found.push_back(std::move(decoder));  // an encoder writes none
    }
    std::ranges::sort(found, {}, &RecordedDecoder::name);
    return found;
  }();
  return all;
}

const RecordedDecoder& recorded_decoder(const std::string& name) {
  const auto& all = recorded_decoders();
  const auto found = std::ranges::find(all, name, &RecordedDecoder::name);
  EXPECT_NE(found, all.end()) << name;
  return found == all.end() ? all.front() : *found;
}

std::unique_ptr<LoadedModel> load_with_context(const RecordedDecoder& decoder, uint64_t context, LoadOptions options) {
  std::string config = read_text_file(decoder.path + "/config.json");
  constexpr std::string_view kKey = "\"max_position_embeddings\": ";
  const size_t at = config.find(kKey) + kKey.size();
  options.config_text = config.replace(at, config.find(',', at) - at, std::to_string(context));
  return load_or_die(decoder.path, options);
}

GenerateOptions greedily(size_t count) {
  GenerateOptions options;
  options.max_tokens = count;
  options.sampling.temperature = 0;
  return options;
}

std::vector<TokenId> write_on(LoadedModel& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                              StopReason reason) {
  auto generator = Generator::start(*model.as_causal_lm(), model.context(), prompt, options);
  EXPECT_TRUE(generator) << generator.error().message;
  if (!generator) return {};
  for (;;) {
    const auto token = generator->next();
    EXPECT_TRUE(token) << token.error().message;
    if (!token || !*token) break;
  }
  EXPECT_EQ(generator->stop_reason(), reason);
  const auto tokens = generator->tokens();
  return {tokens.begin() + static_cast<ptrdiff_t>(prompt.size()), tokens.end()};
}

void expect_recorded_texts(LoadedModel& model, const RecordedDecoder& recorded) {
  for (const RecordedContinuation& text : recorded.texts) {
    GenerateOptions options = greedily(text.cached.size());
    EXPECT_EQ(write_on(model, text.prompt, options), text.cached);
    options.kv_cache = false;
    EXPECT_EQ(write_on(model, text.prompt, options), text.recomputed);
  }
}

}  // namespace ballast::testing
