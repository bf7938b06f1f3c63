#include "ballast/serve/reader_thread.h"

#include <utility>

namespace ballast::serve {

ReaderThread::ReaderThread() : thread_([this] { run(); }) {}

ReaderThread::~ReaderThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

ReaderThread::Leave ReaderThread::post(Read read) {
  auto task = std::make_shared<Task>();
  task->read = std::move(read);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  changed_.notify_one();
  return [task = std::move(task)] { leave(*task); };
}

bool ReaderThread::is_idle() const {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !is_reading_;
}

void ReaderThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || is_ending_; });
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    is_reading_ = true;
    lock.unlock();
    do_task(*task);
    lock.lock();
    is_reading_ = false;
  }
}

void ReaderThread::do_task(Task& task) {
  Read read;
  {
    const std::lock_guard lock(task.mutex);
    read = std::exchange(task.read, nullptr);
  }
  if (!read) return;  // the client has left
  Leave started = read();
  {
    const std::lock_guard lock(task.mutex);
    if (!task.has_left) {
      task.leave = std::move(started);
      return;
    }
  }
  if (started) started();
}

// What is forgotten ends outside of the lock: it may be large.
void ReaderThread::leave(Task& task) {
  Read unread;
  Leave started;
  {
    const std::lock_guard lock(task.mutex);
    task.has_left = true;
    unread = std::exchange(task.read, nullptr);
    started = std::exchange(task.leave, nullptr);
  }
  if (started) started();
}

}  // namespace ballast::serve
