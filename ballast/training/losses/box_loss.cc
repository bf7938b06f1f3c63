#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/device/host_values.h"
#include "ballast/training/losses/loss.h"
#include "ballast/training/losses/loss_parts.h"

namespace ballast {

namespace {

constexpr double kSmallestArea = 1e-6;

// Corners inside the picture.
struct Box {
  Box(std::span<const double> boxes, uint64_t row) {
    const auto corner = [&](uint64_t axis, double side) {
      const double center = boxes[row * 4 + axis], size = boxes[row * 4 + 2 + axis];
      return std::clamp(center + side * size / 2, 0.0, 1.0);
    };
    left = corner(0, -1), right = corner(0, 1);
    top = corner(1, -1), bottom = corner(1, 1);
  }
  static double area_between(double left, double top, double right, double bottom) {
    return std::max(0.0, right - left) * std::max(0.0, bottom - top);
  }
  double area() const { return area_between(left, top, right, bottom); }

  double left, top, right, bottom;
};

double intersection_over_union(const Box& a, const Box& b) {
  const double both = Box::area_between(std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                                        std::min(a.bottom, b.bottom));
  return both / std::max(kSmallestArea, a.area() + b.area() - both);
}

double box_factor(std::span<const double> boxes, std::span<const double> targets, uint64_t row,
                  const BoxLossConfig& config) {
  const double area = std::max(kSmallestArea, targets[row * 4 + 2] * targets[row * 4 + 3]);
  const double root = std::sqrt(area / std::max(config.area_ref, kSmallestArea));
  const double miss = 1 - intersection_over_union(Box(boxes, row), Box(targets, row));
  return (1 + config.area_gain * std::min(root, 6.0)) * (1 + config.miss_gain * miss * miss);
}

}  // namespace

Result<Tensor> weighted_box_smooth_l1_loss(Context& context, const Tensor& boxes, const Tensor& targets,
                                           const BoxLossConfig& config) {
  if (boxes.dims().rank() != 2 || boxes.dims()[1] != 4) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("weighted_box_smooth_l1 needs boxes [n, 4]; there are {}", boxes.dims().to_string()));
  }
  BALLAST_TRY(const Tensor losses,
              ops::element_loss(context, ops::ElementLoss::kSmoothL1, boxes, targets, config.beta));
  BALLAST_TRY(const std::vector<double> box_values, doubles_of(boxes));
  BALLAST_TRY(const std::vector<double> target_values, doubles_of(targets));
  std::vector<double> factors;
  for (uint64_t row = 0; row < boxes.dims()[0]; ++row) {
    const double factor = box_factor(box_values, target_values, row, config);
    for (const double gain : {config.center_gain, config.center_gain, config.size_gain, config.size_gain}) {
      factors.push_back(factor * gain);
    }
  }
  BALLAST_TRY(const Tensor weights, constants(context, factors, losses));
  BALLAST_TRY(const Tensor weighted, ops::binary(context, BinaryOp::kMul, losses, weights));
  return ops::sum_all(context, weighted);
}

}  // namespace ballast
