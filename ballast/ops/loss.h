// Arguments of the losses, for those who add implementations.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// One of labels and targets is there.
struct CrossEntropyArgs {
  static constexpr std::string_view kFunctional = "cross_entropy";
  const Tensor& logits;
  std::span<const uint32_t> labels;
  const Tensor* targets;  // null: labels

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ElementLossArgs {
  static constexpr std::string_view kFunctional = "element_loss";
  ElementLoss loss;
  const Tensor& predictions;
  const Tensor& targets;
  double parameter;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct HingeLossArgs {
  static constexpr std::string_view kFunctional = "hinge_loss";
  const Tensor& logits;
  std::span<const uint32_t> labels;
  double margin;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// Those that are not ignored.
uint64_t count_labels(std::span<const uint32_t> labels);
// Rows that cross-entropy takes the mean of; `targets` null: labels.
uint64_t counted_rows(const Tensor& logits, std::span<const uint32_t> labels, const Tensor* targets);
// One label for each row of logits, inside its classes or ignored, and one at least that counts.
Status check_labels(const Tensor& logits, std::span<const uint32_t> labels);

}  // namespace ballast::ops
