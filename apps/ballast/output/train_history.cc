#include "apps/ballast/output/train_history.h"

#include <algorithm>
#include <cmath>

namespace ballast::cli {

namespace {

constexpr double kSmoothing = 0.95;
constexpr double kRecentSeconds = 3;

}  // namespace

void Series::add(uint64_t step, double value) {
  if (!std::isfinite(value)) return;
  const auto at = static_cast<double>(step);
  if (buckets_.empty() || buckets_.back().count >= per_bucket_) {
    if (buckets_.size() == kMostBuckets) halve();
    buckets_.push_back({at, at, 0, value, value, 0});
  }
  Bucket& bucket = buckets_.back();
  bucket.last_step = at;
  bucket.sum += value;
  bucket.least = std::min(bucket.least, value);
  bucket.most = std::max(bucket.most, value);
  ++bucket.count;
}

void Series::halve() {
  for (size_t i = 0; i < buckets_.size() / 2; ++i) {
    const Bucket& a = buckets_[2 * i];
    const Bucket& b = buckets_[2 * i + 1];
    buckets_[i] = {a.first_step,     b.last_step, a.sum + b.sum, std::min(a.least, b.least), std::max(a.most, b.most),
                   a.count + b.count};
  }
  buckets_.resize(buckets_.size() / 2);
  per_bucket_ *= 2;
}

void TrainHistory::add(const TrainEvent& event) {
  if (const auto* step = std::get_if<StepRecord>(&event)) add_step(*step);
  if (const auto* eval = std::get_if<EvalRecord>(&event)) evals_.push_back(*eval);
  if (const auto* resume = std::get_if<ResumeRecord>(&event)) resume_ = *resume;
  if (const auto* checkpoint = std::get_if<CheckpointRecord>(&event)) {
    checkpoint_ = *checkpoint;
    ++checkpoints_;
  }
}

void TrainHistory::add_step(const StepRecord& record) {
  last_ = record;
  items_ += record.items;
  seconds_ += record.seconds;
  skipped_ += record.skipped ? 1 : 0;
  loss_.add(record.step, record.loss);
  lr_.add(record.step, record.lr);
  if (record.grad_norm) grad_norm_.add(record.step, *record.grad_norm);
  if (std::isfinite(record.loss)) {
    smooth_sum_ = kSmoothing * smooth_sum_ + (1 - kSmoothing) * record.loss;
    smooth_weight_ = kSmoothing * smooth_weight_ + (1 - kSmoothing);
  }
  const double fading = std::exp(-std::max(record.seconds, 0.0) / kRecentSeconds);
  recent_items_ = fading * recent_items_ + static_cast<double>(record.items);
  recent_steps_ = fading * recent_steps_ + 1;
  recent_seconds_ = fading * recent_seconds_ + record.seconds;
}

const EvalRecord* TrainHistory::best() const {
  const EvalRecord* best = nullptr;
  for (const EvalRecord& eval : evals_) {
    if (std::isfinite(eval.loss) && (best == nullptr || eval.loss < best->loss)) best = &eval;
  }
  return best;
}

double TrainHistory::smooth_loss() const { return smooth_weight_ > 0 ? smooth_sum_ / smooth_weight_ : last_.loss; }

double TrainHistory::items_per_second() const { return recent_seconds_ > 0 ? recent_items_ / recent_seconds_ : 0; }

double TrainHistory::steps_per_second() const { return recent_seconds_ > 0 ? recent_steps_ / recent_seconds_ : 0; }

}  // namespace ballast::cli
