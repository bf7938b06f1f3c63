// A service without sockets: requests go in as values, and answers are kept in memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/serve/service.h"

namespace ballast::testing {

class MemorySink : public serve::AnswerSink {
 public:
  void send(serve::HttpAnswer answer) override;
  void begin(serve::HttpAnswer head) override;
  void write(std::string piece) override;
  void end() override;
  size_t unsent() const override;

  // Waits for the end of the answer; fails the test where it does not come.
  serve::HttpAnswer wait();
  // Waits for so many pieces, or the end.
  void wait_for_pieces(size_t count);
  std::vector<std::string> pieces();
  bool has_ended();
  // What unsent() tells from now on.
  void pretend_unsent(size_t bytes);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  serve::HttpAnswer answer_;
  std::vector<std::string> pieces_;
  size_t unsent_ = 0;
  int answers_ = 0;
  bool ended_ = false;
};

// Holds the thread that answers, from the answer's beginning until it is let go.
class HeldSink : public MemorySink {
 public:
  void send(serve::HttpAnswer answer) override;
  void begin(serve::HttpAnswer head) override;
  void wait_until_held() { held_.get_future().wait(); }
  void let_go() { go_on_.set_value(); }

 private:
  void hold();
  std::promise<void> held_, go_on_;
};

// "tiny" writes text and has a chat template, "plain" has none, "thinker" begins with its reasoning, "embed" makes
// vectors. Answers have at most 24 tokens unless options say otherwise.
serve::ServiceOptions rig_options();

class ServiceRig {
 public:
  explicit ServiceRig(serve::ServiceOptions options = rig_options());

  serve::Service& service() { return *service_; }
  serve::HttpAnswer post(std::string_view path, std::string_view body, std::string_view key = "");
  serve::HttpAnswer get(std::string_view path);
  // Does not wait.
  struct Started {
    std::shared_ptr<MemorySink> sink;
    std::function<void()> leave;
  };
  Started start(std::string_view method, std::string_view path, std::string_view body, std::string_view key = "");
  // The value of a metric, with its labels as they are written.
  double metric(std::string_view name);
  // Fails the test where the service has not become idle soon.
  void wait_until_idle();
  // Likewise where a metric does not become this value: what an engine counts is told a moment after it is idle.
  void wait_for_metric(std::string_view name, double value);

 private:
  std::unique_ptr<serve::Service> service_;
};

// The JSON of each event of a stream, without "[DONE]".
std::vector<std::string> events_of(std::string_view stream);
// What the values at this path in each of the events spell together; events where it is no text do not count.
std::string joined(const std::vector<std::string>& events, std::string_view path);
// The text of the first choice's message.
std::string chat_text(const serve::HttpAnswer& answer);

}  // namespace ballast::testing
