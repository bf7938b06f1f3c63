// The thread of a text model: it owns the engine, takes new requests between two steps, and hands out what each got.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "ballast/engine/engine.h"

namespace ballast::serve {

class TextAnswer;  // serve/text_answer.h

// Where requests wait for the thread. It is there before the model is loaded, and as long as any answer: so a client
// may leave at any time. Any number of threads may use it.
class EngineInbox {
 public:
  struct Job {
    Request request;
    std::shared_ptr<TextAnswer> answer;
    size_t choice = 0;
  };
  void submit(std::vector<Job> jobs);
  // Somebody left: the thread looks who it was.
  void look_for_left();
  void stop();
  // After the last step.
  EngineCounters counters() const;

 private:
  friend class Runner;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> incoming_;
  bool has_left_ = false;
  bool is_stopped_ = false;
  EngineCounters counters_;
};

class Runner {
 public:
  // Starts the thread. `log` is told of errors of the engine as a whole.
  Runner(std::unique_ptr<Engine> engine, std::shared_ptr<EngineInbox> inbox, std::function<void(std::string_view)> log);
  // Ends what is running.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

 private:
  struct Running {
    std::shared_ptr<TextAnswer> answer;
    size_t choice;
  };
  void run();
  bool turn();
  void add(EngineInbox::Job job);
  void drop_unwanted();
  void step();
  void hand_out(const std::vector<EngineEvent>& events);
  void end_all(std::string_view why);

  std::unique_ptr<Engine> engine_;
  std::shared_ptr<EngineInbox> inbox_;
  std::function<void(std::string_view)> log_;
  std::map<RequestId, Running> running_;
  unsigned failed_steps_ = 0;  // in a row
  std::thread thread_;
};

}  // namespace ballast::serve
