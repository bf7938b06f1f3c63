#include "tests/support/recorded_decoders.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ballast/base/json.h"
#include "tests/support/json_path.h"
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

RecordedDecoder read_decoder(const std::filesystem::path& folder) {
  RecordedDecoder decoder{folder.filename().string(), folder.string(), {}, {}};
  const std::string text = read_text_file((folder / "expected.json").string());
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

}  // namespace

RecordedTensor RecordedDecoder::tensor(const std::string& tensor_name) const {
  return recorded_tensor(fmt::format("../hf/{}/expected.safetensors", name), tensor_name);
}

const std::vector<RecordedDecoder>& recorded_decoders() {
  static const std::vector<RecordedDecoder> all = [] {
    std::vector<RecordedDecoder> found;
    for (const auto& entry : std::filesystem::directory_iterator(test_file_path("hf"))) {
      RecordedDecoder decoder = read_decoder(entry.path());
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

}  // namespace ballast::testing
