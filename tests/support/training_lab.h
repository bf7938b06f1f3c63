// A model with what it takes to train it: tests of training and the small programs of interop use it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/nn/sequential.h"
#include "ballast/ops/tape.h"
#include "ballast/training/losses/loss.h"
#include "ballast/training/optimizer.h"

namespace ballast::testing {

class TrainingLab {
 public:
  TrainingLab(std::unique_ptr<nn::Sequential> model, const std::string& backend, unsigned threads = 1);

  nn::Sequential& model() { return *model_; }
  Execution& device() { return *device_; }
  Context& context() { return device_->context(); }
  ParamGradients& gradients() { return gradients_; }
  Tape& tape() { return tape_; }
  RandomStream& random() { return random_; }
  std::vector<Param> params() const { return {model_->parameters().begin(), model_->parameters().end()}; }

  // The loss before the step, and the gradients in place. Labels where `labels` is not empty, else `target`.
  Result<float> backward(const LossConfig& loss, const Tensor& x, const Tensor* target,
                         std::span<const uint32_t> labels = {}, double seed = 1);

 private:
  std::shared_ptr<Execution> device_;
  std::unique_ptr<nn::Sequential> model_;
  ParamGradients gradients_;
  Tape tape_;
  RandomStream random_{.seed = 1};
};

}  // namespace ballast::testing
