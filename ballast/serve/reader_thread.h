// A thread that reads large requests, so that they do not hold up the thread that has all the sockets.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ballast::serve {

// Any thread may call it.
class ReaderThread {
 public:
  using Leave = std::function<void()>;
  // Reads a request and starts its answer. Returns what is to be called if the client leaves.
  using Read = std::function<Leave()>;

  ReaderThread();
  // Ends when all that was posted is read.
  ~ReaderThread();
  ReaderThread(const ReaderThread&) = delete;
  ReaderThread& operator=(const ReaderThread&) = delete;

  // Requests are read in order. What is returned is to be called if the client leaves: a request that is still in line
  // is forgotten at once, with its body; one that is being read is told as soon as it is.
  Leave post(Read read);
  bool is_idle() const;

 private:
  struct Task {
    std::mutex mutex;
    Read read;
    Leave leave{};
    bool has_left = false;
  };
  void run();
  static void do_task(Task& task);
  static void leave(Task& task);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool is_reading_ = false, is_ending_ = false;
  std::thread thread_;
};

}  // namespace ballast::serve
