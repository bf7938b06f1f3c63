#include "ballast/io/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace ballast {

namespace {

// While a model runs, the next loop follows within this time; sleeping and waking would cost more.
constexpr std::chrono::microseconds kBusyWait{30};
// Pieces per thread: enough that a thread which was held up is helped out, few enough that claiming them is cheap.
constexpr size_t kPiecesPerThread = 4;
constexpr unsigned kMostThreads = 4096;  // beyond what any machine has; the number may come from a command line

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `done()` is, false when the time is up.
template <typename Done>
bool wait_busily(bool worth_it, const Done& done) {
  if (done()) return true;
  if (!worth_it) return false;
  const auto end = std::chrono::steady_clock::now() + kBusyWait;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

struct PoolLoop {
  size_t count = 0;
  size_t step = 1;
  size_t pieces = 0;
  void (*call)(const void*, size_t, size_t) = nullptr;
  const void* body = nullptr;
};

}  // namespace

// How a loop reaches the threads: the caller writes `loop`, opens it and counts `round` up. A thread that sees a new
// round enters (`inside`), and works only if it finds the loop open after that. The caller closes the loop when no
// piece is left and then waits until nobody is inside: whoever claimed a piece was. Only then may it write `loop`
// again.
//
// Two pairs need one order that all threads agree on (sequential consistency, the default here): a thread enters and
// then looks whether the loop is open, while the caller closes it and then looks whether anybody is inside; one of them
// sees the other. And a thread counts itself among the sleepers and then looks at the round, while the caller counts
// the round up and then looks for sleepers.
struct ThreadPool::State {
  PoolLoop loop;
  std::vector<std::thread> threads;
  bool busy_wait = true;  // false where it would take the processor from whom it waits for

  alignas(64) std::atomic<size_t> next{0};  // piece
  alignas(64) std::atomic<uint64_t> round{0};
  std::atomic<bool> open{false};
  std::atomic<bool> stopping{false};
  alignas(64) std::atomic<unsigned> inside{0};
  std::atomic<bool> busy{false};  // a loop is running
  std::atomic<unsigned> sleepers{0};
  std::atomic<bool> caller_sleeps{false};

  std::mutex mutex;  // of both conditions; guards no data
  std::condition_variable work_came;
  std::condition_variable all_left;

  void work() {
    for (size_t piece = next.fetch_add(1, std::memory_order_relaxed); piece < loop.pieces;
         piece = next.fetch_add(1, std::memory_order_relaxed)) {
      const size_t begin = piece * loop.step;
      loop.call(loop.body, begin, begin + std::min(loop.step, loop.count - begin));
    }
  }

  void enter_and_work() {
    inside.fetch_add(1);
    if (open.load()) work();
    if (inside.fetch_sub(1) == 1 && caller_sleeps.load()) {
      const std::lock_guard lock(mutex);
      all_left.notify_one();
    }
  }

  void serve() {
    uint64_t seen = 0;
    const auto has_news = [&] { return round.load() != seen || stopping.load(); };
    for (;;) {
      if (!wait_busily(busy_wait, has_news)) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        work_came.wait(lock, has_news);
        sleepers.fetch_sub(1);
      }
      if (stopping.load()) return;
      seen = round.load();
      enter_and_work();
    }
  }

  void announce() {
    open.store(true);
    round.fetch_add(1);
    if (sleepers.load() == 0) return;
    const std::lock_guard lock(mutex);
    work_came.notify_all();
  }

  void close_and_wait() {
    open.store(false);
    const auto nobody_inside = [&] { return inside.load() == 0; };
    if (wait_busily(busy_wait, nobody_inside)) return;
    std::unique_lock lock(mutex);
    caller_sleeps.store(true);
    all_left.wait(lock, nobody_inside);
    caller_sleeps.store(false);
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
  const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
  threads = threads == 0 ? processors : std::min(threads, kMostThreads);
  state_->busy_wait = threads <= processors && processors > 1;
  try {
    state_->threads.reserve(threads - 1);
    for (unsigned i = 1; i < threads; ++i) state_->threads.emplace_back([state = state_.get()] { state->serve(); });
  } catch (const std::system_error&) {  // no more threads to be had: those there are do the work
  } catch (const std::bad_alloc&) {
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping.store(true);
  }
  state_->work_came.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

unsigned ThreadPool::size() const { return static_cast<unsigned>(state_->threads.size()) + 1; }

void ThreadPool::run(size_t count, size_t grain, Call call, const void* body) {
  if (count == 0) return;
  grain = std::max<size_t>(grain, 1);
  const size_t units = (count - 1) / grain + 1;
  // A loop inside a loop, or a second caller, finds the pool busy and computes alone: nobody waits for anybody.
  if (units == 1 || state_->threads.empty() || state_->busy.exchange(true)) {
    call(body, 0, count);
    return;
  }
  const size_t units_each = (units - 1) / (size() * kPiecesPerThread) + 1;
  // units_each * grain cannot wrap: with more than one piece it is below count.
  const size_t step = units_each * grain;
  state_->loop = {count, step, (count - 1) / step + 1, call, body};
  state_->next.store(0, std::memory_order_relaxed);
  state_->announce();
  state_->work();
  state_->close_and_wait();
  state_->busy.store(false);
}

}  // namespace ballast
