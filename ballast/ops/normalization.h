// Arguments of the norms, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct LayerNormArgs {
  static constexpr std::string_view kFunctional = "layer_norm";
  const Tensor& x;
  const Param& gamma;
  const Param& beta;
  float eps;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct RmsNormArgs {
  static constexpr std::string_view kFunctional = "rms_norm";
  const Tensor& x;
  const Param& gamma;
  float eps;
  float shift = 0;  // of gamma

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct BatchStatisticsArgs {
  static constexpr std::string_view kFunctional = "batch_statistics";
  const Tensor& x;

  Status check() const;
  std::string text() const;
};

struct BatchNormTrainingArgs {
  static constexpr std::string_view kFunctional = "batch_norm_training";
  const Tensor& x;
  const Tensor& statistics;  // batch_statistics of x
  const Param& gamma;
  const Param& beta;
  float eps;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct BatchNormArgs {
  static constexpr std::string_view kFunctional = "batch_norm";
  const Tensor& x;
  const Param& mean;
  const Param& variance;
  const Param& gamma;
  const Param& beta;
  float eps;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct GroupNormArgs {
  static constexpr std::string_view kFunctional = "group_norm";
  const Tensor& x;
  uint64_t groups;
  const Param& gamma;
  const Param& beta;
  float eps;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
