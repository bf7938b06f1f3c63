// The model that comes with Ballast, against what PyTorch computed with the weights it was trained to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/json.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

struct Probe {
  std::vector<TokenId> tokens;
  std::vector<TokenId> argmax;
  std::vector<double> last;
};

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

Status parse_probe(JsonReader& json, Probe& probe) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return json.finish();
    if (key == "tokens") BALLAST_CHECK(read_numbers(json, probe.tokens));
    else if (key == "argmax") BALLAST_CHECK(read_numbers(json, probe.argmax));
    else if (key == "last") BALLAST_CHECK(read_numbers(json, probe.last));
    else BALLAST_CHECK(json.skip_value());
  }
}

TEST(DefaultModel, ComputesWhatPyTorchComputes) {
  const std::string text = read_text_file(test_file_path("torch/default_model_probe.json"));
  JsonReader json(text, "probe");
  Probe probe;
  ASSERT_TRUE(parse_probe(json, probe));
  const auto model = load_or_die(default_model_file());
  const auto logits = model->forward(TokenInput{probe.tokens});
  ASSERT_TRUE(logits) << logits.error().message;
  const size_t width = logits->dims().back();
  ASSERT_EQ(probe.last.size(), width);
  ASSERT_EQ(probe.argmax.size(), probe.tokens.size());
  const std::vector<float> all = read_floats(*logits);
  ASSERT_EQ(all.size(), probe.tokens.size() * width);
  for (size_t row = 0; row < probe.argmax.size(); ++row) {
    const float* values = all.data() + row * width;
    EXPECT_EQ(std::max_element(values, values + width) - values, probe.argmax[row]) << "row " << row;
  }
  // Logits reach 16.
  const float* last = all.data() + (probe.tokens.size() - 1) * width;
  double largest = 0;
  for (size_t i = 0; i < width; ++i)
    largest = std::max(largest, std::abs(probe.last[i] - static_cast<double>(last[i])));
  EXPECT_LE(largest, 1e-4);
}

}  // namespace
}  // namespace ballast::testing
