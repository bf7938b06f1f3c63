#include "ballast/training/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ballast/base/json_object.h"
#include "ballast/base/near_miss.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

double cosine(double low, double high, double turn) {
  return low + (high - low) / 2 * (1 + std::cos(std::numbers::pi * turn));
}

class Constant final : public Schedule {
 public:
  explicit Constant(const ScheduleConfig& config) : Schedule(config) {}

 private:
  double rate(uint64_t, std::optional<double>) override { return config_.lr; }
};

class LinearWarmup final : public Schedule {
 public:
  explicit LinearWarmup(const ScheduleConfig& config) : Schedule(config) {}

 private:
  double rate(uint64_t call, std::optional<double>) override {
    const uint64_t warmup = config_.warmup.value_or(0);
    if (call >= warmup) return config_.lr;
    const double start = config_.warmup_start.value_or(0);
    return start + static_cast<double>(call) / static_cast<double>(warmup) * (config_.lr - start);
  }
};

// Not clamped past the end, as in netcl: the rate rises again there.
class WarmupCosine final : public Schedule {
 public:
  explicit WarmupCosine(const ScheduleConfig& config) : Schedule(config) {}

 private:
  double rate(uint64_t call, std::optional<double>) override {
    const uint64_t warmup = config_.warmup.value_or(5), total = config_.total.value_or(0);
    if (call <= warmup)
      return config_.lr * static_cast<double>(call) / static_cast<double>(std::max<uint64_t>(1, warmup));
    const double length = total > warmup ? static_cast<double>(total - warmup) : 1;
    return cosine(config_.min_lr.value_or(0), config_.lr, static_cast<double>(call - warmup) / length);
  }
};

class CosineAnnealing final : public Schedule {
 public:
  explicit CosineAnnealing(const ScheduleConfig& config) : Schedule(config) {}

 private:
  double rate(uint64_t call, std::optional<double>) override {
    const uint64_t warmup = config_.warmup.value_or(0);
    const double start = config_.warmup_start.value_or(1e-6);
    if (call < warmup) return start + static_cast<double>(call) / static_cast<double>(warmup) * (config_.lr - start);
    return cosine(config_.min_lr.value_or(1e-5), config_.lr,
                  static_cast<double>(call - warmup) / static_cast<double>(config_.period.value_or(10)));
  }
};

class ReduceOnPlateau final : public Schedule {
 public:
  explicit ReduceOnPlateau(const ScheduleConfig& config) : Schedule(config), lr_(config.lr) {}

 private:
  double rate(uint64_t, std::optional<double> metric) override {
    if (!metric) return lr_;
    const bool first = !best_;
    if (first || is_better(*metric)) {
      best_ = metric;
      bad_ = 0;
    } else if (++bad_ >= config_.patience.value_or(10)) {
      lr_ = std::max(config_.min_lr.value_or(0), lr_ * config_.factor.value_or(0.1));
      bad_ = 0;
    }
    return lr_;
  }
  bool is_better(double metric) const {
    const double threshold = config_.threshold.value_or(1e-4);
    return config_.larger_is_better.value_or(false) ? metric > *best_ + threshold : metric < *best_ - threshold;
  }
  std::string more_state() const override {
    return fmt::format(", \"lr\": {}, \"best\": {}, \"bad\": {}", python_real(lr_),
                       best_ ? python_real(*best_) : "null", bad_);
  }
  Status load_more(std::string_view json) override {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the schedule's state"));
    BALLAST_TRY(const auto lr, object.find_real("lr"));
    BALLAST_TRY(const auto best, object.find_real("best"));
    BALLAST_TRY(const auto bad, object.find_count("bad"));
    if (!lr || !bad) {
      return make_error(ErrorCode::kInvalidArgument, "the schedule's state: \"lr\" and \"bad\" are needed");
    }
    lr_ = *lr;
    best_ = best;
    bad_ = *bad;
    return {};
  }

  double lr_;
  std::optional<double> best_;
  uint64_t bad_ = 0;
};

template <typename T>
std::unique_ptr<Schedule> build(const ScheduleConfig& config) {
  return std::make_unique<T>(config);
}

struct ScheduleRow {
  std::string_view name;
  std::vector<std::string_view> uses;
  std::unique_ptr<Schedule> (*build)(const ScheduleConfig&);
};

const std::array<ScheduleRow, 5>& schedule_rows() {
  static const std::array<ScheduleRow, 5> kRows = {{
      {"Constant", {}, build<Constant>},
      {"LinearWarmup", {"warmup", "warmup_start"}, build<LinearWarmup>},
      {"WarmupCosine", {"total", "warmup", "min_lr"}, build<WarmupCosine>},
      {"CosineAnnealingLR", {"min_lr", "period", "warmup", "warmup_start"}, build<CosineAnnealing>},
      {"ReduceLROnPlateau", {"factor", "patience", "min_lr", "threshold", "larger_is_better"}, build<ReduceOnPlateau>},
  }};
  return kRows;
}

Error unknown(const std::string& name) {
  const auto names = schedule_names();
  const std::string_view near = nearest(name, names);
  const std::string hint =
      near.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no schedule \"{}\"; {}", name, hint));
}

Status check(const ScheduleConfig& config, const ScheduleRow& row) {
  std::vector<std::string> problems;
  const auto unused = [&](std::string_view name, bool given) {
    if (given && std::ranges::find(row.uses, name) == row.uses.end()) {
      problems.push_back(fmt::format("{} has no \"{}\"", row.name, name));
    }
  };
  unused("min_lr", config.min_lr.has_value());
  unused("warmup_start", config.warmup_start.has_value());
  unused("factor", config.factor.has_value());
  unused("threshold", config.threshold.has_value());
  unused("total", config.total.has_value());
  unused("warmup", config.warmup.has_value());
  unused("period", config.period.has_value());
  unused("patience", config.patience.has_value());
  unused("larger_is_better", config.larger_is_better.has_value());
  if (!(config.lr >= 0)) problems.push_back("the learning rate must not be negative");
  if (row.name == "WarmupCosine" && !config.total) problems.push_back("WarmupCosine needs \"total\"");
  if (config.period == 0) problems.push_back("\"period\" must be above 0");
  if (problems.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleRow& row : schedule_rows()) names.push_back(row.name);
  return names;
}

Result<std::unique_ptr<Schedule>> Schedule::make(const ScheduleConfig& config) {
  return guarded([&]() -> Result<std::unique_ptr<Schedule>> {
    for (const ScheduleRow& row : schedule_rows()) {
      if (row.name != config.type) continue;
      BALLAST_CHECK(check(config, row));
      return row.build(config);
    }
    return unknown(config.type);
  });
}

double Schedule::step(std::optional<double> metric) { return rate(calls_++, metric); }

std::string Schedule::state_dict() const {
  return fmt::format("{{\"type\": \"{}\", \"calls\": {}{}}}", config_.type, calls_, more_state());
}

Status Schedule::load_state_dict(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the schedule's state"));
    BALLAST_TRY(const auto type, object.find_text("type"));
    BALLAST_TRY(const auto calls, object.find_count("calls"));
    if (type != config_.type || !calls) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the state is that of the schedule {}, and this run uses {}",
                                    type.value_or("(none)"), config_.type));
    }
    BALLAST_CHECK(load_more(json));
    calls_ = *calls;
    return {};
  });
}

}  // namespace ballast
