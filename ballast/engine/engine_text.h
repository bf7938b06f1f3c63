// A request while the engine has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ballast/engine/engine.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/models/model.h"

namespace ballast {

struct EngineText {
  enum class Phase : uint8_t {
    kWaiting,    // in line, or put aside
    kFollowing,  // until its leader has computed the prompt that they share
    kRunning,
  };

  EngineText(RequestId number, Request asked, const CausalLm& model);

  RequestId id;
  Request request;              // without its prompt and its past
  std::vector<TokenId> tokens;  // prompt and what was generated
  uint64_t prompt_size;
  Sampler sampler;
  std::shared_ptr<KvSequence> past{};  // null: it keeps none
  Phase phase = Phase::kWaiting;
  RequestId leader = 0;
  bool is_cancelled = false;

  // Positions before it are computed as those of a text of this length, and each behind it as those of a text that ends
  // there: so they were when they came, and so they are again when the text was put aside.
  uint64_t base_length;
  uint64_t reused = 0;    // tokens that were known when it began
  uint64_t furthest = 0;  // positions that were computed at least once

  uint64_t generated() const { return tokens.size() - prompt_size; }
  // What the model sees: the last tokens, as many as fit its context.
  std::span<const TokenId> window(const CausalLm& model) const;
  uint64_t computed() const { return past ? past->length() : 0; }
  bool goes_before(const EngineText& other) const;

  // After the text has grown: where its past is of no use any more, it is forgotten.
  void follow_length(const CausalLm& model);
  // Leaves the last token to be computed, where everything is: its logits are what is drawn from.
  void leave_one(const CausalLm& model);
  // The past of the request, where it begins like the text.
  void take_past(std::shared_ptr<KvSequence> given, const CausalLm& model);
};

// Some rows of a text in a pass, and what came of it.
struct TextChunk {
  EngineText* text;
  uint64_t rows;
  uint64_t text_length;
  bool reaches_end;  // of the text as it is: its logits are asked for

  struct Logits;
  std::shared_ptr<const Logits> logits{};  // of the pass
  size_t row = 0;                          // of them
  Tensor kept{};                           // that row, where the request keeps it
  std::optional<Error> error{};
};

}  // namespace ballast
