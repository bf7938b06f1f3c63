// What the service counts, for operators.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::serve {

// How long things took. Any number of threads may add to it.
class DurationHistogram {
 public:
  void add(std::chrono::nanoseconds duration);
  // As Prometheus reads it.
  void append_to(std::string& out, std::string_view name, std::string_view help) const;

 private:
  static constexpr std::array<double, 14> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
  std::array<std::atomic<uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<uint64_t> nanoseconds_{0};
};

// Errors by their status. Any number of threads may add to it.
class StatusCounts {
 public:
  void add(int status);
  // Those that there were.
  void append_to(std::string& out, std::string_view name, std::string_view help) const;

 private:
  static constexpr int kFirst = 400, kCount = 200;
  std::array<std::atomic<uint64_t>, kCount> counts_{};
};

struct ServiceMetrics {
  std::atomic<uint64_t> requests{0};         // of any kind
  std::atomic<uint64_t> refused_as_busy{0};  // 429
  std::atomic<uint64_t> refused{0};          // every other error before an answer began
  std::atomic<uint64_t> answers{0};          // texts and embeddings that were given to the end
  std::atomic<uint64_t> left{0};             // clients that went away before
  std::atomic<uint64_t> too_slow{0};         // clients that did not read
  StatusCounts refused_unread;               // by whoever listens, for want of a key and the like
  DurationHistogram first_token, between_tokens, whole_answer;
};

}  // namespace ballast::serve
