#include "tests/support/training_lab.h"

#include "ballast/device/host_access.h"

namespace ballast::testing {

TrainingLab::TrainingLab(std::unique_ptr<nn::Sequential> model, const std::string& backend, unsigned threads)
    : device_(*Execution::open(backend, threads)),
      model_(std::move(model)),
      gradients_(device_->workspace()),
      tape_(gradients_) {
  model_->train();
  model_->track(gradients_);
}

Result<float> TrainingLab::backward(const LossConfig& loss, const Tensor& x, const Tensor* target,
                                    std::span<const uint32_t> labels, double seed) {
  gradients_.clear();
  ++random_.step;
  random_.draws = 0;
  context().random = &random_;
  context().tape = &tape_;
  const auto run = [&]() -> Result<float> {
    BALLAST_TRY(const Tensor y, model_->forward(context(), x));
    BALLAST_TRY(const Tensor value, compute_loss(context(), loss, y, {.labels = labels, .values = target}));
    const float before = host_data<const float>(value)[0];
    BALLAST_CHECK(tape_.backward(context(), value, seed));
    return before;
  };
  auto result = run();
  context().tape = nullptr;
  return result;
}

}  // namespace ballast::testing
