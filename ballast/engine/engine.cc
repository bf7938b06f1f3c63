#include "ballast/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/base/human_size.h"
#include "ballast/engine/scheduler.h"
#include "ballast/engine/text_pass.h"
#include "ballast/io/guard.h"
#include "ballast/models/token_input.h"

namespace ballast {

namespace {

// So that nothing is lost where there is no memory: behind this, as many are added without any.
template <typename T>
void room_for_more(std::vector<T>& list, size_t more) {
  if (list.capacity() - list.size() < more) list.reserve(std::max(list.size() + more, 2 * list.size()));
}

}  // namespace

struct Engine::State {
  using Phase = EngineText::Phase;

  State(const CausalLm& lm, Context& where, std::shared_ptr<KvPool> pages, const EngineOptions& options,
        std::mutex* turns)
      : model(lm), context(where), pool(std::move(pages)), running(turns), scheduler(lm, pool, options, counters) {}

  const CausalLm& model;
  Context& context;
  std::shared_ptr<KvPool> pool;
  std::mutex* running;
  EngineCounters counters;
  Scheduler scheduler;
  RequestId last_id = 0;
  std::vector<EngineEvent> events;  // that nobody was told yet
  std::vector<float> allowed;       // logits that a constraint has seen; kept from token to token

  std::unique_lock<std::mutex> take_turn() const {
    return running != nullptr ? std::unique_lock(*running) : std::unique_lock<std::mutex>();
  }
  Result<EngineText*> find(RequestId id) const;
  Status check(const Request& request) const;
  Status check_past(const Request& request) const;
  Result<RequestId> add(Request request);
  RequestId add(std::unique_ptr<EngineText> text);
  Result<std::unique_ptr<EngineText>> another(const EngineText& text, const SamplerOptions& sampling) const;

  Status compute();
  void end_unwanted();
  Status settle(TextChunk& chunk);
  void count_rows(const TextChunk& chunk);
  Status draw_for_all(TextChunk& chunk);
  Status draw(EngineText& text, const TextChunk& chunk);
  Result<SampledToken> sample(EngineText& text, std::span<const float> logits);
  void finish(EngineText& text, EngineEvent event);
};

// ---------------------------------------------------------------- requests

Result<EngineText*> Engine::State::find(RequestId id) const {
  if (EngineText* const text = scheduler.find(id)) return text;
  return make_error(ErrorCode::kNotFound, fmt::format("there is no request {}, or it is over", id));
}

Status Engine::State::check_past(const Request& request) const {
  if (!request.past) return {};
  if (&request.past->pool() != pool.get()) {
    return make_error(ErrorCode::kInvalidArgument, "the past of the request is not one of this engine");
  }
  for (const auto& text : scheduler.texts()) {
    if (text->past != request.past) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the past of the request is in use: request {} writes to it", text->id));
  }
  return {};
}

Status Engine::State::check(const Request& request) const {
  BALLAST_CHECK(check_sampler_options(request.sampling));
  const uint64_t most = model.context_length();
  const std::span<const TokenId> prompt = request.prompt;
  if (prompt.size() > most && !request.context_shift) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("the prompt has {} tokens, the model's context {}; shorten it, or allow its beginning to be "
                    "forgotten",
                    prompt.size(), most),
        Remedy::kForgetBeginning);
  }
  BALLAST_CHECK(check_tokens(prompt.last(std::min<size_t>(prompt.size(), most)), model.vocab_size(), 0, most));
  BALLAST_CHECK(check_past(request));
  if (!request.keep_past) return {};
  // The last token is written and not computed with.
  const uint64_t more = request.max_tokens == 0 ? 0 : request.max_tokens - 1;
  const uint64_t positions = std::min(checked_add(prompt.size(), more).value_or(most), most);
  if (pool->could_hold(positions)) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("a prompt of {} tokens and {} more need a KV cache of {}, and there is {} for all texts",
                  prompt.size(), request.max_tokens, human_size(pool->layout().bytes_for(positions).value_or(0)),
                  human_size(pool->limit())));
}

RequestId Engine::State::add(std::unique_ptr<EngineText> text) {
  const RequestId id = text->id;
  const uint64_t reused = text->reused;
  scheduler.add(std::move(text));
  last_id = id;
  ++counters.submitted;
  counters.reused_tokens += reused;
  return id;
}

Result<RequestId> Engine::State::add(Request request) {
  BALLAST_CHECK(check(request));
  auto given = std::exchange(request.past, nullptr);
  auto text = std::make_unique<EngineText>(last_id + 1, std::move(request), model);
  if (text->request.keep_past) {
    if (!given) given = std::make_shared<KvSequence>(pool, model.length_kind(text->base_length));
    text->take_past(std::move(given), model);
  }
  return add(std::move(text));
}

// Before the prompt is done there is nothing to go on from: the new one follows, and then begins with the same logits.
Result<std::unique_ptr<EngineText>> Engine::State::another(const EngineText& text,
                                                           const SamplerOptions& sampling) const {
  auto other = std::make_unique<EngineText>(text);
  other->id = last_id + 1;
  other->request.sampling = sampling;
  other->sampler = Sampler(sampling);
  other->reused = 0;
  if (text.generated() == 0) {
    other->leader = text.phase == Phase::kFollowing ? text.leader : text.id;
    other->phase = Phase::kFollowing;
    other->furthest = 0;
    if (text.past) other->past = std::make_shared<KvSequence>(pool, text.past->kind());
  } else if (text.past) {
    BALLAST_TRY(KvSequence past, text.past->fork());
    other->past = std::make_shared<KvSequence>(std::move(past));
  }
  return other;
}

// ---------------------------------------------------------------- a step

// Whatever fails for want of memory on the way leaves texts as they were, or further: what was computed and not drawn
// from is computed once more.
Status Engine::State::compute() {
  end_unwanted();
  std::vector<TextChunk> chunks = scheduler.plan();
  if (chunks.empty()) return {};
  ++counters.steps;
  for (TextChunk& chunk : chunks) {
    if (chunk.error) BALLAST_CHECK(settle(chunk));
  }
  std::erase_if(chunks, [](const TextChunk& chunk) { return chunk.error.has_value(); });
  run_chunks(model, context, chunks);
  uint64_t rows = 0;
  for (TextChunk& chunk : chunks) {
    rows += chunk.rows;
    BALLAST_CHECK(settle(chunk));
  }
  counters.most_rows_in_a_step = std::max(counters.most_rows_in_a_step, rows);
  return {};
}

void Engine::State::end_unwanted() {
  const auto now = std::chrono::steady_clock::now();
  const auto reason_of = [now](const EngineText& text) -> std::optional<FinishReason> {
    if (text.is_cancelled) return FinishReason::kCancelled;
    if (text.request.deadline && *text.request.deadline <= now) return FinishReason::kDeadline;
    return std::nullopt;
  };
  for (size_t i = 0; i < scheduler.texts().size();) {
    EngineText& text = *scheduler.texts()[i];
    if (const auto reason = reason_of(text)) finish(text, {.reason = *reason});
    else ++i;
  }
}

Status Engine::State::settle(TextChunk& chunk) {
  EngineText& text = *chunk.text;
  if (chunk.error) {
    finish(text, {.reason = FinishReason::kFailed, .error = std::move(chunk.error)});
    return {};
  }
  count_rows(chunk);
  if (text.past) text.past->append(text.window(model).subspan(text.computed(), chunk.rows));
  return chunk.reaches_end ? draw_for_all(chunk) : Status();
}

void Engine::State::count_rows(const TextChunk& chunk) {
  EngineText& text = *chunk.text;
  const uint64_t begin = text.computed(), end = begin + chunk.rows;
  const uint64_t known = std::clamp(text.furthest, begin, end);
  counters.recomputed_tokens += known - begin;
  counters.prompt_tokens += std::max(known, std::min(end, text.prompt_size)) - known;
  text.furthest = std::max(text.furthest, end);
}

// Those that follow go on from the same past and logits, before the text itself does.
Status Engine::State::draw_for_all(TextChunk& chunk) {
  EngineText& text = *chunk.text;
  for (size_t i = 0; i < scheduler.texts().size();) {
    EngineText& follower = *scheduler.texts()[i];
    if (follower.leader != text.id) {
      ++i;
      continue;
    }
    if (text.past) {
      BALLAST_TRY(KvSequence past, text.past->fork());
      follower.past = std::make_shared<KvSequence>(std::move(past));
    }
    follower.base_length = text.base_length;
    follower.furthest = follower.reused = text.computed();
    follower.leader = 0;
    follower.phase = Phase::kRunning;
    const size_t before = scheduler.texts().size();
    BALLAST_CHECK(draw(follower, chunk));
    if (scheduler.texts().size() == before) ++i;
  }
  return draw(text, chunk);
}

Status Engine::State::draw(EngineText& text, const TextChunk& chunk) {
  room_for_more(events, 2);
  room_for_more(text.tokens, 1);
  EngineEvent event{.id = text.id, .reused = text.reused, .logits = chunk.kept};
  const auto end = [&](FinishReason reason, std::optional<Error> error = {}) -> Status {
    finish(text, {.token = event.token, .reason = reason, .error = std::move(error), .logits = event.logits});
    return {};
  };
  if (text.generated() >= text.request.max_tokens) return end(FinishReason::kMaxTokens);
  auto token = sample(text, chunk.logits->row(chunk.row));
  // Want of memory is no fault of the text: the token is drawn with the next step.
  if (!token && token.error().code == ErrorCode::kOutOfMemory) return std::move(token).error();
  if (!token) return end(FinishReason::kFailed, std::move(token).error());
  const auto& stops = text.request.stop_tokens;
  event.token = *token;
  if (std::ranges::find(stops, token->id) != stops.end()) return end(FinishReason::kStopToken);
  text.tokens.push_back(token->id);
  ++counters.generated_tokens;
  events.push_back(event);
  event.token = {};
  if (text.generated() >= text.request.max_tokens) return end(FinishReason::kMaxTokens);
  const bool is_full = text.tokens.size() > model.context_length();
  if (is_full && !text.request.context_shift) return end(FinishReason::kContextFull);
  text.follow_length(model);
  return {};
}

Result<SampledToken> Engine::State::sample(EngineText& text, std::span<const float> logits) {
  if (text.request.constraint) {
    allowed.assign(logits.begin(), logits.end());
    BALLAST_CHECK(text.request.constraint(allowed, text.tokens));
    logits = allowed;
  }
  return text.sampler.next(logits, text.tokens);
}

void Engine::State::finish(EngineText& text, EngineEvent event) {
  event.id = text.id;
  event.kind = EngineEvent::Kind::kFinished;
  event.reused = text.reused;
  const FinishReason reason = event.reason;
  events.push_back(std::move(event));
  if (reason == FinishReason::kCancelled) ++counters.cancelled;
  else if (reason == FinishReason::kDeadline) ++counters.expired;
  else if (reason == FinishReason::kFailed) ++counters.failed;
  else ++counters.finished;
  scheduler.remove(text);
}

// ---------------------------------------------------------------- the doors

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::make(const CausalLm& model, Context& context, const EngineOptions& options,
                                             std::mutex* running) {
  return guarded([&]() -> Result<std::unique_ptr<Engine>> {
    if (options.most_rows == 0 || options.most_sequences == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("an engine with passes of {} rows and {} texts computes nothing", options.most_rows,
                                    options.most_sequences));
    }
    KvShape shape = model.kv_shape();
    shape.dtype = options.cache_dtype;
    const KvPoolOptions pool_options{.most_bytes = options.most_bytes,
                                     .share_prefixes = options.share_prefixes,
                                     .most_kept_bytes = options.most_kept_bytes,
                                     .kept_before = options.kept_before};
    BALLAST_TRY(auto pool, KvPool::make(shape, context.workspace().shared_queue(), pool_options));
    if (options.most_bytes != 0 && !pool->could_hold(1)) {
      // Exactly, too: a rounded size may be one that does not work.
      const uint64_t least = pool->layout().bytes_for(1).value_or(0);
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("a KV cache of {} has no room for any text: the smallest that works has {} bytes "
                                    "({})",
                                    human_size(options.most_bytes), least, human_size(least)));
    }
    return std::unique_ptr<Engine>(
        new Engine(std::make_unique<State>(model, context, std::move(pool), options, running)));
  });
}

Result<RequestId> Engine::submit(Request request) {
  return guarded([&] { return state_->add(std::move(request)); });
}

Status Engine::check(const Request& request) const {
  return guarded([&] { return state_->check(request); });
}

Result<RequestId> Engine::fork(RequestId id, const SamplerOptions& sampling) {
  return guarded([&]() -> Result<RequestId> {
    BALLAST_CHECK(check_sampler_options(sampling));
    BALLAST_TRY(const EngineText* text, state_->find(id));
    const auto turn = state_->take_turn();
    BALLAST_TRY(auto other, state_->another(*text, sampling));
    return state_->add(std::move(other));
  });
}

Status Engine::cancel(RequestId id) {
  return guarded([&]() -> Status {
    BALLAST_TRY(EngineText* const text, state_->find(id));
    text->is_cancelled = true;
    return {};
  });
}

Result<std::vector<EngineEvent>> Engine::step() {
  return guarded([&]() -> Result<std::vector<EngineEvent>> {
    const auto turn = state_->take_turn();
    BALLAST_CHECK(state_->compute());
    return std::exchange(state_->events, {});
  });
}

bool Engine::is_idle() const { return state_->scheduler.texts().empty() && state_->events.empty(); }

Result<RequestProgress> Engine::progress(RequestId id) const {
  return guarded([&]() -> Result<RequestProgress> {
    BALLAST_TRY(const EngineText* text, state_->find(id));
    return RequestProgress{.computed = text->computed(),
                           .total = text->window(state_->model).size(),
                           .reused = text->reused,
                           .generated = text->generated()};
  });
}

std::span<const TokenId> Engine::text(RequestId id) const {
  const EngineText* const text = state_->scheduler.find(id);
  return text != nullptr ? std::span<const TokenId>(text->tokens) : std::span<const TokenId>();
}

EngineCounters Engine::counters() const {
  EngineCounters counters = state_->counters;
  counters.running = state_->scheduler.count(EngineText::Phase::kRunning);
  counters.waiting = state_->scheduler.texts().size() - counters.running;
  counters.pool = state_->pool->counters();
  return counters;
}

Result<std::shared_ptr<KvSequence>> Engine::make_past() {
  return guarded([&]() -> Result<std::shared_ptr<KvSequence>> { return std::make_shared<KvSequence>(state_->pool); });
}

Status Engine::save(RequestId id, const std::string& path, const Digest& model) const {
  return guarded([&]() -> Status {
    BALLAST_TRY(const EngineText* text, state_->find(id));
    if (text->computed() == 0) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("request {} has no past yet, or keeps none", id));
    }
    const auto turn = state_->take_turn();
    return text->past->save(path, model);
  });
}

Result<RequestId> Engine::restore(const std::string& path, const Digest& model, Request request) {
  return guarded([&]() -> Result<RequestId> {
    const auto turn = state_->take_turn();
    BALLAST_TRY(KvSequence saved, KvSequence::restore(path, model, state_->pool));
    const auto known = saved.tokens();
    const auto differs = std::ranges::mismatch(known, request.prompt);
    if (differs.in1 != known.end()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: the text that was saved has {} tokens, and the prompt, which has {}, differs "
                                    "from token {} on",
                                    path, known.size(), request.prompt.size(), differs.in1 - known.begin()));
    }
    request.past = std::make_shared<KvSequence>(std::move(saved));
    return state_->add(std::move(request));
  });
}

}  // namespace ballast
