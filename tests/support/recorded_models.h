// What the real gpt.rs computed, and models to compute it again with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ballast/archive/write.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

// tests/data/gptrs/<name>/model.gptrs
std::string recorded_model_path(const std::string& name);
// The model that comes with Ballast.
std::string default_model_file();

// Fails the test, and ends the test program, when it does not load.
std::unique_ptr<LoadedModel> load_or_die(const std::string& path, const LoadOptions& options = {});
// The text of the error that loading gives; fails the test when it loads.
std::string load_failure(const std::string& path, const LoadOptions& options = {});

struct RecordedTensor {
  std::vector<uint64_t> dims;
  std::vector<float> values;
};
// `file` below tests/data/gptrs.
RecordedTensor recorded_tensor(const std::string& file, const std::string& name);

// Largest distance of two elements; fails the test where the shapes differ. NaN stays NaN. Up to so many units in the
// last place of the recorded number are no distance.
double largest_difference(const Tensor& tensor, const RecordedTensor& recorded, int free_ulps = 0);

// One run of `forward --tokens`: tensor "logits" in the file.
struct RecordedForward {
  std::string model;
  std::string file;
  std::vector<TokenId> tokens;
};
const std::vector<RecordedForward>& recorded_forwards();

// One greedy text, the same with and without a KV cache.
struct RecordedText {
  std::string model;
  std::vector<TokenId> prompt;
  std::vector<TokenId> written;
  std::vector<uint64_t> capacities;  // of the cache with which it was made besides
  std::string steps;                 // file with tensor "step_logits"; empty: none
};
const std::vector<RecordedText>& recorded_texts();

// A copy of a recorded model with something changed, in `folder`.
std::string write_changed_model(const TempFolder& folder, const std::string& model,
                                const std::function<void(WritePlan& plan)>& change);
size_t tensor_index(const WritePlan& plan, const std::string& name);

// Weights of an image model that any language can make anew: "resnet34" or "mobilenet_v2", as a checkpoint.
std::string write_rule_checkpoint(const TempFolder& folder, const std::string& kind, uint64_t seed);

}  // namespace ballast::testing
