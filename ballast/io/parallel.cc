#include "ballast/io/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace ballast {

namespace {

// No text of its own: there may be no memory for one.
Error out_of_memory() { return make_error(ErrorCode::kOutOfMemory, "out of memory"); }

Status run_one(const std::function<Status(size_t)>& body, size_t index) {
  try {
    return body(index);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {  // a container asked for more than any memory holds
    return out_of_memory();
  } catch (const std::exception& exception) {
    return make_error(ErrorCode::kInvalidArgument, exception.what());
  } catch (...) {
    return make_error(ErrorCode::kInvalidArgument, "an unknown exception");
  }
}

class OrderedLoop {
 public:
  OrderedLoop(size_t count, const std::function<Status(size_t)>& body) : body_(body), end_(count) {}

  // Items are handed out in ascending order, so everything below a failing index is already under way or done, and the
  // lowest failure is found whichever thread comes first.
  void work() {
    for (size_t i = next_.fetch_add(1); i < end_.load(); i = next_.fetch_add(1)) {
      Status status = run_one(body_, i);
      if (!status) record(i, std::move(status));
    }
  }

  Status take_outcome() { return std::move(outcome_); }

 private:
  void record(size_t index, Status status) {
    const std::lock_guard lock(mutex_);
    if (index >= end_.load()) return;
    end_.store(index);
    outcome_ = std::move(status);
  }

  const std::function<Status(size_t)>& body_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> end_;  // the count, or the lowest failing index
  std::mutex mutex_;
  Status outcome_;
};

}  // namespace

Status parallel_for(size_t count, unsigned threads, const std::function<Status(size_t)>& body) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  OrderedLoop loop(count, body);
  std::vector<std::thread> helpers;
  try {
    const size_t wanted = std::min<size_t>(threads, count);
    for (size_t i = 1; i < wanted; ++i) helpers.emplace_back([&loop] { loop.work(); });
  } catch (const std::system_error&) {  // no more threads
  } catch (const std::bad_alloc&) {
  }
  loop.work();
  for (std::thread& helper : helpers) helper.join();
  return loop.take_outcome();
}

}  // namespace ballast
