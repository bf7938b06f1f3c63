#include "ballast/ops/experts.h"

#include <algorithm>
#include <cmath>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"

namespace ballast::reference {

namespace {

// How many of a row come before share i: those that are larger, and of equal ones the first.
template <typename T>
uint64_t rank_of(const T* shares, uint64_t experts, uint64_t i) {
  uint64_t before = 0;
  for (uint64_t j = 0; j < experts; ++j) {
    if (shares[j] > shares[i] || (shares[j] == shares[i] && j < i)) ++before;
  }
  return before;
}

// A score that is not a number has no place in any order: all shares of its row are not numbers then, and stay.
template <typename T>
void choose_experts(const T* scores, T* shares, T* gates, uint64_t experts, uint64_t used, bool normalise) {
  const T largest = *std::max_element(scores, scores + experts);
  T sum = 0;
  for (uint64_t i = 0; i < experts; ++i) sum += shares[i] = std::exp(scores[i] - largest);
  for (uint64_t i = 0; i < experts; ++i) shares[i] /= sum;
  const bool has_nan = std::any_of(shares, shares + experts, [](T share) { return share != share; });
  for (uint64_t i = 0; i < experts; ++i) {
    gates[i] = has_nan || rank_of(shares, experts, i) < used ? shares[i] : T{0};
  }
  if (!normalise || has_nan) return;
  T kept = 0;
  for (uint64_t i = 0; i < experts; ++i) kept += gates[i];
  for (uint64_t i = 0; i < experts; ++i) gates[i] /= kept;
}

Result<Tensor> run_gates(Context& context, const ExpertGatesArgs& args) {
  const uint64_t experts = args.scores.dims()[1];
  BALLAST_TRY(Tensor gates, make_like(context, args.scores));
  BALLAST_TRY(Tensor shares, make_like(context, args.scores));
  if (gates.count() == 0) return gates;
  with_type(gates.dtype(), [&]<typename T>() {
    each(context, args.scores.dims()[0], [&](size_t row) {
      const uint64_t at = row * experts;
      choose_experts(host_data<const T>(args.scores) + at, host_data<T>(shares) + at, host_data<T>(gates) + at, experts,
                     args.used, args.normalise);
    });
  });
  return gates;
}

// Whoever replaces or watches linear meets the experts' matrices too.
Result<Tensor> through(Context& context, const Tensor& x, const Expert::Matrix& matrix) {
  const LinearOptions options{.layout = WeightLayout::kOutIn, .rows = matrix.rows};
  if (context.registry().is_overridden("linear")) return linear(context, x, matrix.weight, options);
  return weighted_product(context, x, matrix.weight, options);
}

// Parameters of experts that no row uses are not touched.
template <typename T>
bool is_used(const Tensor& gates, uint64_t expert) {
  const uint64_t rows = gates.dims()[0], experts = gates.dims()[1];
  for (uint64_t row = 0; row < rows; ++row) {
    if (host_data<const T>(gates)[row * experts + expert] != T{0}) return true;
  }
  return false;
}

// Every expert that is used says something of every row; what has no gate does not count.
template <typename T>
Status ask_experts(Context& context, const ExpertMlpArgs& args, Tensor& y) {
  const uint64_t rows = y.dims()[0], width = y.dims()[1], experts = args.experts.size();
  for (uint64_t i = 0; i < experts; ++i) {
    if (!is_used<T>(args.gates, i)) continue;
    const Expert& expert = args.experts[i];
    BALLAST_TRY(const Tensor gate, through(context, args.x, expert.gate));
    BALLAST_TRY(const Tensor up, through(context, args.x, expert.up));
    BALLAST_TRY(const Tensor hidden, gated(context, args.activation, gate, up));
    BALLAST_TRY(const Tensor said, through(context, hidden, expert.down));
    for (uint64_t row = 0; row < rows; ++row) {
      const T share = host_data<const T>(args.gates)[row * experts + i];
      if (share == T{0}) continue;
      for (uint64_t j = row * width; j < (row + 1) * width; ++j)
        host_data<T>(y)[j] += share * host_data<const T>(said)[j];
    }
  }
  return {};
}

Result<Tensor> run_mlp(Context& context, const ExpertMlpArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().zeros(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return ask_experts<T>(context, args, y); }));
  return y;
}

}  // namespace

void add_experts(Registry& registry) {
  registry.add_builtin<ExpertGatesArgs>(nullptr, run_gates);
  registry.add_builtin<ExpertMlpArgs>(nullptr, run_mlp);
}

}  // namespace ballast::reference
