// Many texts on one model: requests join and leave while others are being written, and every pass computes rows of all
// of them.
//
// No thread of its own: whoever owns an engine calls step() until it is idle. What a request is given does not depend
// on its company: neither on other requests, nor on how its prompt was cut, nor on whether it was put aside meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/base/dtype.h"
#include "ballast/base/hash.h"
#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/device/tensor.h"
#include "ballast/engine/kv_pool_counters.h"
#include "ballast/engine/sampler.h"

namespace ballast {

class CausalLm;    // models/model.h
class Context;     // ops/context.h
class KvSequence;  // engine/kv_pool.h

struct EngineOptions {
  uint64_t most_bytes = 0;       // of the past of all texts; 0: as much as the device has
  uint64_t most_rows = 512;      // of one pass: tokens that are written, and pieces of prompts
  uint64_t most_sequences = 64;  // that are computed in one pass
  DType cache_dtype = DType::kF32;
  bool share_prefixes = true;
  uint64_t most_kept_bytes = 0;  // these two: see KvPoolOptions
  uint64_t kept_before = 0;
};

using RequestId = uint64_t;  // never 0

// Is shown the logits of each token before one is drawn, and the text so far (prompt and what was generated), and may
// forbid tokens (-infinity).
using LogitConstraint = std::function<Status(std::span<float> logits, std::span<const TokenId> text)>;

struct Request {
  std::vector<TokenId> prompt;
  uint64_t max_tokens = 128;
  SamplerOptions sampling{};
  std::vector<TokenId> stop_tokens{};  // end the text and are not part of it
  LogitConstraint constraint{};
  int priority = 0;  // higher goes first, also where that puts a running text aside
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  // At the end of the context, forget the oldest token and compute the rest again, for each token; off: stop there.
  bool context_shift = false;
  bool keep_past = true;     // off: the whole text is computed again for each token; the same tokens, slower
  bool keep_logits = false;  // events have what the token was chosen from
  // Of Engine::make_past(), or of a request that is over: what it has of the beginning of the prompt is not computed
  // again, and afterwards it has the past of this text. Null: the request has one of its own.
  std::shared_ptr<KvSequence> past{};
};

enum class FinishReason : uint8_t { kMaxTokens, kStopToken, kContextFull, kCancelled, kDeadline, kFailed };

struct EngineEvent {
  enum class Kind : uint8_t { kToken, kFinished };
  RequestId id = 0;
  Kind kind = Kind::kToken;
  SampledToken token{};                            // kToken; of kStopToken the one that ended the text
  FinishReason reason = FinishReason::kMaxTokens;  // kFinished
  std::optional<Error> error{};                    // kFailed
  uint64_t reused = 0;                             // tokens of the prompt that were known when the request began
  // [1, vocabulary], of a request that keeps them: what the token was chosen from. Also where a text ends instead of
  // getting a token.
  Tensor logits{};
};

struct EngineCounters {
  uint64_t waiting = 0, running = 0;  // now
  uint64_t submitted = 0, finished = 0, cancelled = 0, failed = 0, expired = 0;
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t reused_tokens = 0;  // of prompts, found in the pool or in Request::past
  uint64_t generated_tokens = 0;
  uint64_t recomputed_tokens = 0;  // of texts that had been put aside, or that are computed anew for their length
  uint64_t preemptions = 0;
  uint64_t most_rows_in_a_step = 0;
  KvPoolCounters pool{};
};

// How far a request is.
struct RequestProgress {
  uint64_t computed = 0, total = 0;  // tokens of the text so far, as far as the model sees them
  uint64_t reused = 0;               // of these, known when it began
  uint64_t generated = 0;
};

// One thread at a time.
//
// Each step takes one token of every running text, and fills up with pieces of prompts. The line is in order of
// priority, then of arrival; a request leaves it when there are pages for its text and one more, and none overtakes
// another that needs more. One exception: a request whose text begins like that of one before it, which is being
// computed, waits until it can take over the whole pages of that beginning, and lets others pass meanwhile. Of the page
// after those it takes over what is known then.
//
// Where pages run out, the request at the end of that order gives its own up, goes back into the line and is computed
// again later. A pass that fails is tried again with half of its texts, down to one: only whose pass fails alone fails.
class Engine {
 public:
  // The model, the context and `running` must outlive it. `running`, where it is given, is held by every call that
  // computes, so that others may use the context from other threads in between.
  static Result<std::unique_ptr<Engine>> make(const CausalLm& model, Context& context,
                                              const EngineOptions& options = {}, std::mutex* running = nullptr);
  ~Engine();

  // Checks the request and puts it in line. kInvalidArgument, with the numbers, for one that could never be served: a
  // prompt beyond the context, ids outside the vocabulary, a text that the pool could not hold if it were empty.
  Result<RequestId> submit(Request request);
  // What submit() would say of it.
  Status check(const Request& request) const;
  // Another request that goes on from where this one is, with a sampling of its own: several answers to one prompt. It
  // has the same limits; tokens that were generated before count. While the prompt is not done, it waits for that.
  Result<RequestId> fork(RequestId id, const SamplerOptions& sampling);
  // Ends it with kCancelled, whatever it is doing; its event comes with the next step. kNotFound: it is not there (any
  // more).
  Status cancel(RequestId id);
  // One pass. Events of requests that got a token, or ended. An error is one of the engine as a whole; what goes wrong
  // with one request is its event, and the others go on. After an error the engine can go on too.
  Result<std::vector<EngineEvent>> step();
  // Nothing to compute, and nothing to tell.
  bool is_idle() const;

  Result<RequestProgress> progress(RequestId id) const;
  // Prompt and what was generated, up to the next step. Empty for a request that is not there.
  std::span<const TokenId> text(RequestId id) const;
  EngineCounters counters() const;

  // An empty past in the engine's pool, for Request::past. Its pages stay with whoever holds it.
  Result<std::shared_ptr<KvSequence>> make_past();
  // The past of a request's text as far as it is computed, to go on with it later or elsewhere. `model`: a digest of
  // what keys and values depend on.
  Status save(RequestId id, const std::string& path, const Digest& model) const;
  // Submits a request whose prompt begins with the tokens that were saved; kInvalidArgument where it does not.
  Result<RequestId> restore(const std::string& path, const Digest& model, Request request);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
