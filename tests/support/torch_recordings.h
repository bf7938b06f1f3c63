// What PyTorch computed with seeded weights, and the same weights made anew. scripts/interop_torch --record writes the
// recordings (tests/data/torch); the rule of the weights is also in tests/interop/torch_weights.py.
#pragma once

#include <string>
#include <vector>

#include "ballast/base/shape.h"
#include "ballast/base/token_id.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

struct TorchTensor {
  std::string name;
  Shape shape;
};

struct TorchImages {
  std::vector<uint64_t> dims;  // [n, 3, height, width]
  std::vector<double> logits;  // [n, classes]
};

struct TorchRecording {
  std::vector<TorchTensor> tensors;  // of the state, in f32
  std::vector<TorchImages> runs;     // image models

  // Text models. The logits are every stride-th of these rows.
  std::string config;
  std::vector<TokenId> tokens, argmax, written;
  std::vector<double> log_sum_exp, logits;
  std::vector<uint64_t> rows;
  uint64_t stride = 0;
};
// `name`: "gpt2_small", "resnet34", "mobilenet_v2". Fails the test, and ends the test program, when it cannot be read.
TorchRecording torch_recording(const std::string& name);

// A tensor of that name and shape, on all threads.
std::vector<float> seeded_values(const std::string& name, const Shape& shape);
// Coarse patches under some noise, as the recording's images are made.
std::vector<float> seeded_images(const std::vector<uint64_t>& dims);

// The state under the names of PyTorch, imported as `ballast import` does it, written without waiting for the disk.
std::string write_imported(const TempFolder& folder, const std::string& name, const TorchRecording& recording);

}  // namespace ballast::testing
