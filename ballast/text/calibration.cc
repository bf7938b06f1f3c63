#include "ballast/text/calibration.h"

#include "ballast/device/host_values.h"
#include "ballast/ops/linalg.h"

namespace ballast {

namespace {

struct WatchedMatrix {
  uint64_t inputs;
  uint64_t matrices;
  uint64_t matrix;  // which one of a stack
};

WatchedMatrix watched(const ops::LinearArgs& args) {
  const Shape& shape = args.weight.shape();
  if (args.options.layout == WeightLayout::kInOut) return {shape[0], 1, 0};
  if (shape.rank() != 3) return {shape[shape.rank() - 1], 1, 0};
  // Rows of a stack count through all of its matrices.
  return {shape[2], shape[0], shape[1] == 0 ? 0 : args.options.rows.first / shape[1]};
}

Status add_squares(const ops::LinearArgs& args, ImportanceMatrix& matrix) {
  if (args.x.dtype() != DType::kF32 || !args.weight.valid()) return {};
  const WatchedMatrix place = watched(args);
  WeightImportance& entry = matrix[args.weight.name()];
  if (entry.rows.empty()) {
    entry.inputs = place.inputs;
    entry.rows.resize(place.matrices);
    entry.square_sums.resize(place.matrices * place.inputs);
  }
  const uint64_t rows = args.x.dims().leading();
  double* const sums = entry.square_sums.data() + place.matrix * place.inputs;
  BALLAST_TRY(const auto values, HostValues<float>::of(args.x));
  const float* x = values.data();
  for (uint64_t row = 0; row < rows; ++row, x += place.inputs) {
    for (uint64_t i = 0; i < place.inputs; ++i) sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  entry.rows[place.matrix] += rows;
  return {};
}

}  // namespace

// An implementation that looks at the arguments and then leaves the work to those behind it. The registry has checked
// them before it asks.
Status ImportanceCollector::attach(Registry& registry) {
  Implementation<ops::LinearArgs> observer;
  observer.name = "importance";
  observer.supports = [this](const Context&, const ops::LinearArgs& args) {
    failure_ = add_squares(args, matrix_);
    return !failure_;  // where the inputs cannot be read, the error is the result
  };
  observer.run = [this](Context&, const ops::LinearArgs&) -> Result<Tensor> {
    if (!failure_) return failure_.error();
    return make_error(ErrorCode::kUnsupported, "importance only watches");
  };
  return registry.add(std::move(observer));
}

}  // namespace ballast
