// Threads that stay: for work that comes in thousands of small pieces a second.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace ballast {

// A pool computes one loop at a time, for one caller at a time. Its threads wait busily for a few microseconds after a
// loop, because the next follows at once while a model runs, and then sleep.
class ThreadPool {
 public:
  // 0: as many as the machine has. One thread is the caller's own; a pool of one starts none.
  explicit ThreadPool(unsigned threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const;

  // Calls body(begin, end) for pieces that cover [0, count), each a multiple of `grain` long but the last; returns when
  // all are done. Which thread takes which piece is not fixed, so a result must not depend on it. Allocates nothing.
  // `body` must not throw.
  template <typename Body>
  void for_ranges(size_t count, size_t grain, const Body& body) {
    run(
        count, grain, [](const void* what, size_t begin, size_t end) { (*static_cast<const Body*>(what))(begin, end); },
        &body);
  }

 private:
  using Call = void (*)(const void* body, size_t begin, size_t end);
  void run(size_t count, size_t grain, Call call, const void* body);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast
