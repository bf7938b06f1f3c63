#include "ballast/ops/experts.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/check.h"

namespace ballast::ops {

namespace {

uint64_t outputs_of(const Expert::Matrix& matrix) {
  return matrix.rows.count != 0 ? matrix.rows.count : matrix.weight.rows();
}

// [n, k], or rows of a stack of such.
Status check_matrix(std::string_view role, const Expert::Matrix& matrix, uint64_t n, uint64_t k) {
  const bool is_stack = matrix.rows.count != 0 && matrix.weight.valid() && matrix.weight.shape().rank() == 3;
  BALLAST_CHECK(check_weight(role, matrix.weight, is_stack ? 3 : 2));
  const uint64_t inputs = matrix.weight.shape()[matrix.weight.shape().rank() - 1];
  const bool inside = range_fits(matrix.rows.first, matrix.rows.count, matrix.weight.rows());
  if (inside && outputs_of(matrix) == n && inputs == k) return {};
  return refused(named(role, matrix.weight), fmt::format("rows {} to {} must be a matrix [{}, {}]", matrix.rows.first,
                                                         matrix.rows.first + outputs_of(matrix), n, k));
}

Status check_expert(const Expert& expert, uint64_t width) {
  if (!expert.gate.weight.valid()) return make_error(ErrorCode::kInvalidArgument, "gate is no parameter");
  const uint64_t hidden = outputs_of(expert.gate);
  BALLAST_CHECK(check_matrix("gate", expert.gate, hidden, width));
  BALLAST_CHECK(check_matrix("up", expert.up, hidden, width));
  return check_matrix("down", expert.down, width, hidden);
}

}  // namespace

Status ExpertGatesArgs::check() const {
  BALLAST_CHECK(check_activation("scores", scores, 2));
  if (used != 0 && used <= scores.dims()[1]) return {};
  return refused(named("scores", scores), fmt::format("{} of {} experts cannot be used", used, scores.dims()[1]));
}
std::string ExpertGatesArgs::text() const {
  return fmt::format("{}, {} used{}", typed(scores), used, normalise ? ", normalised" : "");
}

Status ExpertMlpArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 2));
  BALLAST_CHECK(check_activation("gates", gates, 2));
  if (gates.dtype() != x.dtype() || gates.dims() != Dims{x.dims()[0], experts.size()}) {
    return does_not_fit("x " + typed(x), "gates " + typed(gates),
                        fmt::format("there is a gate for each row and each of {} experts", experts.size()));
  }
  for (const Expert& expert : experts) BALLAST_CHECK(check_expert(expert, x.dims()[1]));
  return {};
}
std::string ExpertMlpArgs::text() const {
  return fmt::format("{} gates {} {}", typed(x), typed(gates), to_text(activation));
}

Result<Tensor> expert_gates(Context& context, const Tensor& scores, uint64_t used, bool normalise) {
  return context.registry().call(context, ExpertGatesArgs{scores, used, normalise});
}
Result<Tensor> expert_mlp(Context& context, const Tensor& x, const Tensor& gates, std::span<const Expert> experts,
                          Activation activation) {
  return context.registry().call(context, ExpertMlpArgs{x, gates, experts, activation});
}
Result<Tensor> gated(Context& context, Activation activation, const Tensor& gate, const Tensor& up) {
  if (activation == Activation::kSilu) return swiglu(context, gate, up);
  BALLAST_TRY(const Tensor open, activate(context, activation, gate));
  return binary(context, BinaryOp::kMul, open, up);
}

}  // namespace ballast::ops
