#include "ballast/engine/shared_engine.h"

#include <fmt/format.h>

#include "ballast/io/guard.h"

namespace ballast {

// Takes the engine, and gives it back whatever happens in between.
class SharedEngine::Turn {
 public:
  Turn(SharedEngine& shared, std::unique_lock<std::mutex>& lock) : shared_(shared), lock_(lock) {
    shared_.busy_ = true;
    lock_.unlock();
  }
  ~Turn() {
    lock_.lock();
    shared_.busy_ = false;
    shared_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SharedEngine& shared_;
  std::unique_lock<std::mutex>& lock_;
};

SharedEngine::SharedEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

Result<RequestId> SharedEngine::submit(Request request) {
  return guarded([&]() -> Result<RequestId> {
    std::unique_lock lock = go_ahead();
    cancel_dropped();
    Result<RequestId> id = RequestId{0};
    {
      const Turn turn(*this, lock);
      id = engine_->submit(std::move(request));
    }
    if (id) events_.try_emplace(*id);
    return id;
  });
}

Result<std::optional<EngineEvent>> SharedEngine::wait(RequestId id, std::chrono::milliseconds at_most) {
  return guarded([&]() -> Result<std::optional<EngineEvent>> {
    const auto until = std::chrono::steady_clock::now() + at_most;
    bool looked_enough = false;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!events_.contains(id))
        return make_error(ErrorCode::kNotFound, fmt::format("there is no request {}: it is over", id));
      if (auto event = take_first(id)) return event;
      if (looked_enough) return std::optional<EngineEvent>();
      if (!busy_ && ahead_ == 0) {
        BALLAST_CHECK(step(lock));
        looked_enough = true;
      } else {
        looked_enough = changed_.wait_until(lock, until) == std::cv_status::timeout;
      }
    }
  });
}

Status SharedEngine::step() {
  return guarded([&]() -> Status {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_ && ahead_ == 0; });
    return step(lock);
  });
}

std::optional<EngineEvent> SharedEngine::take(RequestId id) {
  const std::lock_guard lock(mutex_);
  return take_first(id);
}

void SharedEngine::drop(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (events_.erase(id) != 0) dropped_.push_back(id);
}

Status SharedEngine::cancel(RequestId id) {
  return guarded([&]() -> Status {
    const std::unique_lock lock = go_ahead();
    return engine_->cancel(id);
  });
}

bool SharedEngine::is_idle() {
  const std::unique_lock lock = go_ahead();
  return dropped_.empty() && engine_->is_idle();
}

EngineCounters SharedEngine::counters() {
  const std::unique_lock lock = go_ahead();
  return engine_->counters();
}

// The lock, with the engine free. Those who wait to compute look again once the lock is free.
std::unique_lock<std::mutex> SharedEngine::go_ahead() {
  std::unique_lock lock(mutex_);
  ++ahead_;
  changed_.wait(lock, [&] { return !busy_; });
  --ahead_;
  changed_.notify_all();
  return lock;
}

// With the lock held and the engine free. One that ended meanwhile is not there any more, which is as good.
void SharedEngine::cancel_dropped() {
  for (const RequestId id : dropped_) (void)engine_->cancel(id);
  dropped_.clear();
}

// With the lock held.
std::optional<EngineEvent> SharedEngine::take_first(RequestId id) {
  const auto found = events_.find(id);
  if (found == events_.end() || found->second.empty()) return std::nullopt;
  EngineEvent event = std::move(found->second.front());
  found->second.pop_front();
  if (event.kind == EngineEvent::Kind::kFinished) events_.erase(found);
  return event;
}

Status SharedEngine::step(std::unique_lock<std::mutex>& lock) {
  cancel_dropped();
  Result<std::vector<EngineEvent>> events = std::vector<EngineEvent>();
  {
    const Turn turn(*this, lock);
    events = engine_->step();
  }
  if (!events) return std::move(events).error();
  deliver(std::move(*events));
  changed_.notify_all();
  return {};
}

void SharedEngine::deliver(std::vector<EngineEvent> events) {
  for (EngineEvent& event : events) {
    const auto found = events_.find(event.id);
    if (found != events_.end()) found->second.push_back(std::move(event));
  }
}

}  // namespace ballast
