#include "tests/support/engine_lab.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/base/counter_random.h"
#include "ballast/device/host_values.h"
#include "ballast/models/model.h"
#include "tests/support/recorded_decoders.h"

namespace ballast::testing {

EngineLab::EngineLab(LoadedModel& model, const EngineOptions& options) {
  auto engine = Engine::make(*model.as_causal_lm(), model.context(), options, &model.running());
  EXPECT_TRUE(engine) << engine.error().message;
  if (engine) engine_ = *std::move(engine);
}

RequestId EngineLab::submit(Request request) {
  const auto id = engine_->submit(std::move(request));
  EXPECT_TRUE(id) << id.error().message;
  return id ? *id : 0;
}

RequestId EngineLab::fork(RequestId id, const SamplerOptions& sampling) {
  const auto other = engine_->fork(id, sampling);
  EXPECT_TRUE(other) << other.error().message;
  if (!other) return 0;
  answers_[*other] = answers_[id];
  return *other;
}

std::vector<EngineEvent> EngineLab::step() {
  auto events = engine_->step();
  EXPECT_TRUE(events) << events.error().message;
  if (!events) return {};
  for (const EngineEvent& event : *events) {
    Answer& answer = answers_[event.id];
    EXPECT_FALSE(answer.reason) << "an event of a request that is over";
    if (event.kind == EngineEvent::Kind::kFinished) {
      answer.reason = event.reason;
      if (event.error) answer.code = event.error->code;
      if (event.error) answer.error = event.error->message;
      continue;
    }
    answer.tokens.push_back(event.token.id);
    auto row = HostValues<float>::of(event.logits);
    if (!row) row = HostValues<float>::of(event.logits);  // a device that fails once: reading is no work of the engine
    EXPECT_TRUE(row) << row.error().message;
    if (row) answer.logits.insert(answer.logits.end(), row->begin(), row->end());
  }
  return *std::move(events);
}

void EngineLab::finish() {
  constexpr int kMostSteps = 100'000;  // an engine that never ends fails instead of hanging
  for (int i = 0; i < kMostSteps && !engine_->is_idle(); ++i) step();
  EXPECT_TRUE(engine_->is_idle());
}

Answer answer_alone(LoadedModel& model, Request request) {
  EngineLab lab(model, {.share_prefixes = false});
  const RequestId id = lab.submit(std::move(request));
  lab.finish();
  return lab.answer(id);
}

Request request_of(std::vector<TokenId> prompt, uint64_t max_tokens) {
  Request request{.prompt = std::move(prompt), .max_tokens = max_tokens, .keep_logits = true};
  request.sampling.temperature = 0;
  return request;
}

std::vector<TokenId> some_ids(size_t count, uint64_t vocabulary, uint64_t seed) {
  std::vector<TokenId> ids(count);
  for (size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>(counter_uniform(seed, i) * static_cast<double>(vocabulary));
  }
  return ids;
}

std::unique_ptr<LoadedModel> roomy_llama(uint64_t context) {
  return load_with_context(recorded_decoder("llama_plain"), context, {.threads = 1});
}

Request prompt_of(size_t length, uint64_t seed, uint64_t max_tokens) {
  return request_of(some_ids(length, 128, seed), max_tokens);
}

Request drawn(Request request, uint64_t seed) {
  request.sampling = {.seed = seed};
  return request;
}

bool got_token(const std::vector<EngineEvent>& events, RequestId id) {
  return std::ranges::any_of(
      events, [id](const auto& event) { return event.id == id && event.kind == EngineEvent::Kind::kToken; });
}

uint64_t bytes_of_pages(const LoadedModel& model, uint64_t pages) {
  const auto layout = KvLayout::make(model.as_causal_lm()->kv_shape());
  EXPECT_TRUE(layout) << layout.error().message;
  uint64_t bytes = 0;
  for (const KvGroup& group : layout->groups()) bytes += pages * group.page_bytes;
  return bytes;
}

}  // namespace ballast::testing
