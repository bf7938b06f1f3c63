// Learning rates over time. None touches an optimizer: whoever trains writes the rate there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// What is absent is the schedule's default; what a schedule does not have is an error. Lengths are in calls.
struct ScheduleConfig {
  // Constant(lr); LinearWarmup(lr, warmup, warmup_start 0);
  // WarmupCosine(lr, total, warmup 5, min_lr 0); CosineAnnealingLR(lr, min_lr 1e-5, period 10, warmup 0, warmup_start
  // 1e-6); ReduceLROnPlateau(lr, factor 0.1, patience 10, min_lr 0, threshold 1e-4, larger_is_better false)
  std::string type = "Constant";
  double lr = 0;  // the base, or the largest
  std::optional<double> min_lr{}, warmup_start{}, factor{}, threshold{};
  std::optional<uint64_t> total{}, warmup{}, period{}, patience{};
  std::optional<bool> larger_is_better{};
};

class Schedule {
 public:
  static Result<std::unique_ptr<Schedule>> make(const ScheduleConfig& config);
  virtual ~Schedule() = default;

  std::string_view type() const { return config_.type; }
  // The rate of the next call; calls are counted from 0. `metric` is what ReduceLROnPlateau looks at.
  double step(std::optional<double> metric = std::nullopt);
  bool needs_metric() const { return type() == "ReduceLROnPlateau"; }
  uint64_t calls() const { return calls_; }

  // {"type", "calls", ...}
  std::string state_dict() const;
  // kInvalidArgument where it is the state of another schedule.
  Status load_state_dict(std::string_view json);

 protected:
  explicit Schedule(ScheduleConfig config) : config_(std::move(config)) {}
  virtual double rate(uint64_t call, std::optional<double> metric) = 0;
  // Members of the state beside type and calls: `, "name": value`.
  virtual std::string more_state() const { return {}; }
  virtual Status load_more(std::string_view) { return {}; }

  ScheduleConfig config_;

 private:
  uint64_t calls_ = 0;
};

std::vector<std::string_view> schedule_names();

}  // namespace ballast
