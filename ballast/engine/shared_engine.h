// One engine for many threads, without a thread of its own: whoever waits for a token computes a step for everyone.
//
// A program that answers several callers at once puts their requests into one engine, so that every pass computes rows
// of all of them. With this, no thread has to be started, stopped, or told to end for that: as long as anyone waits,
// someone computes; when nobody does, nothing happens.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ballast/engine/engine.h"

namespace ballast {

// Any number of threads may use it.
class SharedEngine {
 public:
  explicit SharedEngine(std::unique_ptr<Engine> engine);
  SharedEngine(const SharedEngine&) = delete;
  SharedEngine& operator=(const SharedEngine&) = delete;

  // As Engine::submit(). Goes ahead of those who wait to compute, so that a new request joins the next pass.
  Result<RequestId> submit(Request request);

  // The next event of this request. nullopt where none came within this time, and after a step that had none for it:
  // the caller can then look whether to go on, which on a long prompt may take several steps. kNotFound once the
  // request's end was told, or after drop(). An error of the engine as a whole comes to whoever made that step.
  Result<std::optional<EngineEvent>> wait(RequestId id, std::chrono::milliseconds at_most);

  // For a program that hands out the events of many requests in one place: one step for everyone, then take() what each
  // has got. Waits for the step that another thread computes, and computes the next one.
  Status step();
  // The next event of this request that is there already. nullopt where there is none, or no such request.
  std::optional<EngineEvent> take(RequestId id);

  // Nobody wants its events any more: it ends before the next step. Returns at once, also while another thread
  // computes.
  void drop(RequestId id);

  // These wait for the step that is being computed, and go ahead of the next one.
  //
  // As Engine::cancel(): its end is told with the next step.
  Status cancel(RequestId id);
  // Whether a step would compute nothing and tell nothing. Events that nobody has taken yet may still be there.
  bool is_idle();
  EngineCounters counters();

 private:
  // The engine, for as long as this lives. The lock is open meanwhile.
  class Turn;
  std::unique_lock<std::mutex> go_ahead();
  void cancel_dropped();
  std::optional<EngineEvent> take_first(RequestId id);
  Status step(std::unique_lock<std::mutex>& lock);
  void deliver(std::vector<EngineEvent> events);

  std::unique_ptr<Engine> engine_;  // of whoever set busy_
  std::mutex mutex_;                // of all below
  std::condition_variable changed_;
  bool busy_ = false;
  size_t ahead_ = 0;  // that want the engine for a moment, before anyone computes the next step
  std::unordered_map<RequestId, std::deque<EngineEvent>> events_;  // of requests whose end was not told yet
  std::vector<RequestId> dropped_;                                 // that the engine was not told about yet
};

}  // namespace ballast
