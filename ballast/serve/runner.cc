#include "ballast/serve/runner.h"

#include <utility>

#include "ballast/io/guard.h"
#include "ballast/serve/text_answer.h"

namespace ballast::serve {

namespace {

// A step that fails as a whole may do so for want of memory that others hold; one that goes on failing will not end.
constexpr unsigned kMostFailedSteps = 3;
constexpr std::string_view kStopping = "the server is stopping";

}  // namespace

void EngineInbox::submit(std::vector<Job> jobs) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_) {
      for (Job& job : jobs) incoming_.push_back(std::move(job));
      jobs.clear();
    }
  }
  changed_.notify_one();
  for (const Job& job : jobs) job.answer->fail({.status = 503, .message = std::string(kStopping), .retry_after = 5});
}

void EngineInbox::look_for_left() {
  {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
  }
  changed_.notify_one();
}

void EngineInbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_one();
}

EngineCounters EngineInbox::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Runner::Runner(std::unique_ptr<Engine> engine, std::shared_ptr<EngineInbox> inbox,
               std::function<void(std::string_view)> log)
    : engine_(std::move(engine)), inbox_(std::move(inbox)), log_(std::move(log)), thread_([this] { run(); }) {}

Runner::~Runner() {
  inbox_->stop();
  thread_.join();
}

void Runner::run() {
  for (;;) {
    const auto goes_on = guarded([this]() -> Result<bool> { return turn(); });
    if (!goes_on) {
      if (log_) log_(goes_on.error().message);
      end_all("the server is out of memory");
    } else if (!*goes_on) {
      return;
    }
  }
}

bool Runner::turn() {
  std::vector<EngineInbox::Job> jobs;
  bool is_stopped = false;
  {
    const bool is_idle = engine_->is_idle();
    std::unique_lock lock(inbox_->mutex_);
    inbox_->counters_ = engine_->counters();
    inbox_->changed_.wait(
        lock, [&] { return !is_idle || inbox_->is_stopped_ || inbox_->has_left_ || !inbox_->incoming_.empty(); });
    jobs = std::exchange(inbox_->incoming_, {});
    inbox_->has_left_ = false;
    is_stopped = inbox_->is_stopped_;
  }
  for (EngineInbox::Job& job : jobs) add(std::move(job));
  if (is_stopped) {
    end_all(kStopping);
    return false;
  }
  drop_unwanted();
  if (!engine_->is_idle()) step();
  return true;
}

void Runner::add(EngineInbox::Job job) {
  if (job.answer->is_over()) {
    job.answer->drop();
    return;
  }
  auto id = engine_->submit(std::move(job.request));
  if (id) running_.emplace(*id, Running{std::move(job.answer), job.choice});
  else job.answer->fail(refusal_of(id.error()));
}

// Of an answer that failed or whose client has left, and of choices that have ended by a stop string.
void Runner::drop_unwanted() {
  for (auto at = running_.begin(); at != running_.end();) {
    const bool is_wanted = !at->second.answer->is_over() && at->second.answer->wants_more(at->second.choice);
    if (is_wanted) {
      ++at;
      continue;
    }
    // Where it has ended by itself meanwhile, there is nothing to cancel.
    static_cast<void>(engine_->cancel(at->first));
    at->second.answer->drop();
    at = running_.erase(at);
  }
}

void Runner::step() {
  const auto events = engine_->step();
  if (events) {
    failed_steps_ = 0;
    hand_out(*events);
    return;
  }
  if (log_) log_(events.error().message);
  if (++failed_steps_ >= kMostFailedSteps) end_all("the server failed to compute the answer; its log says why");
}

void Runner::hand_out(const std::vector<EngineEvent>& events) {
  bool has_ended = false;
  for (const EngineEvent& event : events) {
    const auto found = running_.find(event.id);
    if (found == running_.end()) continue;
    const Running running = found->second;
    running.answer->take(running.choice, event);
    const bool is_over = event.kind == EngineEvent::Kind::kFinished;
    if (is_over) running_.erase(found);
    has_ended = has_ended || running.answer->is_over() || !running.answer->wants_more(running.choice);
  }
  if (has_ended) drop_unwanted();
}

void Runner::end_all(std::string_view why) {
  for (const auto& [id, running] : std::exchange(running_, {})) {
    static_cast<void>(engine_->cancel(id));
    running.answer->fail({.status = 503, .message = std::string(why), .retry_after = 5});
    running.answer->drop();
  }
}

}  // namespace ballast::serve
