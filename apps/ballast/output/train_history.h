// A training run so far, in little memory however long it is: what the display draws and the report shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ballast/training/train_log.h"

namespace ballast::cli {

// Values over steps. When there are too many, neighbours are put together, so that the whole curve is always there.
class Series {
 public:
  struct Bucket {
    double first_step = 0;
    double last_step = 0;
    double sum = 0;
    double least = 0;
    double most = 0;
    uint64_t count = 0;

    double step() const { return (first_step + last_step) / 2; }
    double mean() const { return sum / static_cast<double>(count); }
  };

  static constexpr size_t kMostBuckets = 2048;

  // Values that are not finite are left out.
  void add(uint64_t step, double value);
  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool empty() const { return buckets_.empty(); }

 private:
  void halve();

  std::vector<Bucket> buckets_;
  uint64_t per_bucket_ = 1;
};

class TrainHistory {
 public:
  void add(const TrainEvent& event);

  const Series& loss() const { return loss_; }
  const Series& lr() const { return lr_; }
  const Series& grad_norm() const { return grad_norm_; }
  const std::vector<EvalRecord>& evals() const { return evals_; }
  // The last of each; a step of 0 means that there was none.
  const StepRecord& last() const { return last_; }
  const CheckpointRecord& last_checkpoint() const { return checkpoint_; }
  const ResumeRecord& last_resume() const { return resume_; }
  uint64_t checkpoints() const { return checkpoints_; }
  uint64_t skipped_steps() const { return skipped_; }

  // The evaluation with the lowest loss; null when there was none.
  const EvalRecord* best() const;

  uint64_t items() const { return items_; }
  double step_seconds() const { return seconds_; }  // of steps alone
  // The loss without the noise of single batches: an average in which a step counts half after 14 more.
  double smooth_loss() const;
  // Of the last seconds.
  double items_per_second() const;
  double steps_per_second() const;

 private:
  void add_step(const StepRecord& record);

  Series loss_;
  Series lr_;
  Series grad_norm_;
  std::vector<EvalRecord> evals_;
  StepRecord last_;
  CheckpointRecord checkpoint_;
  ResumeRecord resume_;
  uint64_t checkpoints_ = 0;
  uint64_t skipped_ = 0;
  uint64_t items_ = 0;
  double seconds_ = 0;
  double smooth_sum_ = 0;
  double smooth_weight_ = 0;
  double recent_items_ = 0;
  double recent_steps_ = 0;
  double recent_seconds_ = 0;
};

}  // namespace ballast::cli
