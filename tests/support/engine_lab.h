// Requests that an engine is given, and what came of them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/engine/engine.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // what each of them was chosen from, one row behind the other
  std::optional<FinishReason> reason;
  std::optional<ErrorCode> code;  // kFailed
  std::string error;

  friend bool operator==(const Answer&, const Answer&) = default;
};

class EngineLab {
 public:
  explicit EngineLab(LoadedModel& model, const EngineOptions& options = {});

  Engine& engine() { return *engine_; }
  // Fails the test where it is refused.
  RequestId submit(Request request);
  RequestId fork(RequestId id, const SamplerOptions& sampling);
  RequestId fork(RequestId id, uint64_t seed) { return fork(id, SamplerOptions{.seed = seed}); }
  // Fails the test where it fails. The events of the step go to the answers.
  std::vector<EngineEvent> step();
  void finish();
  const Answer& answer(RequestId id) { return answers_[id]; }

 private:
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, Answer> answers_;
};

// What the request is answered in an engine that has no other and keeps nothing.
Answer answer_alone(LoadedModel& model, Request request);

// Greedy, and keeps its logits.
Request request_of(std::vector<TokenId> prompt, uint64_t max_tokens);
// Some ids below `vocabulary`; other ones for another seed.
std::vector<TokenId> some_ids(size_t count, uint64_t vocabulary, uint64_t seed = 0);
// A small llama whose context has several pages, on one thread, with 128 tokens in its vocabulary; and a prompt for it.
std::unique_ptr<LoadedModel> roomy_llama(uint64_t context = 512);
Request prompt_of(size_t length, uint64_t seed, uint64_t max_tokens);
// The request with tokens that are drawn at random.
Request drawn(Request request, uint64_t seed);
// Whether one of the events is a token of this request.
bool got_token(const std::vector<EngineEvent>& events, RequestId id);

// What so many pages take of every layer.
uint64_t bytes_of_pages(const LoadedModel& model, uint64_t pages);

}  // namespace ballast::testing
