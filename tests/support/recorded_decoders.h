// Tiny models of Hugging Face's families, and what transformers computed with them: tests/data/hf and
// tests/data/gguf_models.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ballast/engine/generator.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {

struct RecordedInput {
  std::vector<TokenId> ids;
  // Names of tensors; empty: not recorded.
  std::string logits;    // [t, v]
  std::string last_row;  // [v]
  std::string hidden;    // [layers + 1, t, width]: embeddings, after each layer; the last behind the final norm
};

struct RecordedContinuation {
  std::vector<TokenId> prompt;
  std::vector<TokenId> cached;      // greedy, as `generate` goes on
  std::vector<TokenId> recomputed;  // the same without a cache
  std::vector<TokenId> until_stop;  // with the stop token at its end; empty: not recorded
};

struct RecordedDecoder {
  std::string name;
  std::string place;  // of the folder, below tests/data
  std::string path;
  std::vector<RecordedInput> inputs;
  std::vector<RecordedContinuation> texts;

  RecordedTensor tensor(const std::string& name) const;
  // Of what is recorded of `input`: all rows, or the last.
  double logit_distance(const Tensor& logits, const RecordedInput& input) const;
};
RecordedDecoder read_recorded_decoder(const std::string& place);

// A GGUF file of tests/data/gguf_models.
struct RecordedGguf {
  std::string name;
  std::string path;
  std::string recording;  // place of the folder's own, otherwise of the model in tests/data/hf that has its name
};
void PrintTo(const RecordedGguf& file, std::ostream* out);
// All of them, by name.
std::vector<RecordedGguf> recorded_ggufs();

// All of them, by name.
const std::vector<RecordedDecoder>& recorded_decoders();
const RecordedDecoder& recorded_decoder(const std::string& name);

// A model with room for texts of that length, whatever its config.json says.
std::unique_ptr<LoadedModel> load_with_context(const RecordedDecoder& decoder, uint64_t context,
                                               LoadOptions options = {});

GenerateOptions greedily(size_t count);
// The new tokens.
std::vector<TokenId> write_on(LoadedModel& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                              StopReason reason = StopReason::kMaxTokens);
// With and without a cache.
void expect_recorded_texts(LoadedModel& model, const RecordedDecoder& recorded);

}  // namespace ballast::testing
