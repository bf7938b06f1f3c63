// Losses by name. A loss is [1], from which gradients go out, unless its reduction is "none".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/ops/ops.h"

namespace ballast {

// What is absent is netcl's way, which differs from loss to loss; what a loss does not have is an error.
struct LossConfig {
  // cross_entropy (mean), mse (sum), l1 (sum), l2 (sum), smooth_l1 (sum; beta 1), bce (none), bce_with_logits (none),
  // weighted_bce (sum; needs weights; probabilities are clamped to [1e-7, 1 - 1e-7]), hinge (mean; margin 1)
  std::string name = "cross_entropy";
  std::optional<std::string> reduction{};  // "mean", "sum", "none"
  std::optional<double> beta{}, margin{};
};

// What predictions are compared with: labels, one per row (ops::kIgnoredLabel counts for nothing), or values.
struct LossTarget {
  std::span<const uint32_t> labels{};
  const Tensor* values = nullptr;
  const Tensor* weights = nullptr;  // of single elements, for losses that have one value per element; null: all 1
};

// kInvalidArgument where name, reduction or target do not fit, with what would.
Status check_loss(const LossConfig& config);
Result<Tensor> compute_loss(Context& context, const LossConfig& config, const Tensor& predictions,
                            const LossTarget& target);
std::vector<std::string_view> loss_names();

// ---------------------------------------------------------------- losses over pairs and triples of rows [n, d]
struct MetricLossConfig {
  double margin = 1;
  bool euclidean = false;  // distances; otherwise their squares
  std::string reduction = "mean";
};
// max(0, d(anchor, positive) - d(anchor, negative) + margin)
Result<Tensor> triplet_loss(Context& context, const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                            const MetricLossConfig& config = {});
// For each row the farthest of its own label and the nearest of another. Rows without both count as 0. "mean" or "sum".
Result<Tensor> batch_hard_triplet_loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels,
                                       const MetricLossConfig& config = {});
// Every row with every other of its label and every one of another label. The mean is over the triples above 0.
Result<Tensor> batch_all_triplet_loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels,
                                      const MetricLossConfig& config = {});
// y d^2 + (1 - y) max(0, margin - d)^2; label 1: similar, 0: not.
Result<Tensor> contrastive_loss(Context& context, const Tensor& a, const Tensor& b, std::span<const uint32_t> labels,
                                const MetricLossConfig& config = {});

struct InfoNceConfig {
  double temperature = 0.07;
  bool normalize = true;   // rows to length 1
  bool symmetric = false;  // both ways, and the mean
  std::string reduction = "mean";
};
// Row i of the keys is the one that row i of the queries belongs to.
Result<Tensor> info_nce_loss(Context& context, const Tensor& queries, const Tensor& keys,
                             const InfoNceConfig& config = {});

// ---------------------------------------------------------------- boxes
struct BoxLossConfig {
  double beta = 0.05;
  double area_ref = 0.01, area_gain = 1.5;  // 1 + gain * sqrt(area / ref), the root 6 at most: large boxes count more
  double miss_gain = 2;                     // 1 + gain * (1 - IoU)^2; no gradient goes through it
  double center_gain = 3, size_gain = 1;    // of the first two and the last two coordinates
};
// Sum of the smooth L1 losses of boxes [n, 4], center x, center y, width, height in parts of the picture, each
// multiplied by the factors above.
Result<Tensor> weighted_box_smooth_l1_loss(Context& context, const Tensor& boxes, const Tensor& targets,
                                           const BoxLossConfig& config = {});

}  // namespace ballast
