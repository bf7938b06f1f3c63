#include "ballast/ops/experts.h"

#include <algorithm>
#include <cstring>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/product.h"
#include "ballast/device/host_access.h"

namespace ballast::host {

namespace {

// ---------------------------------------------------------------- which experts

// Of one row: everything but the `used` largest becomes 0, of equal ones the first stays. `order` is room for as many.
template <typename T>
void keep_largest(T* shares, uint32_t* order, uint64_t experts, uint64_t used, bool normalise) {
  for (uint64_t i = 0; i < experts; ++i) order[i] = static_cast<uint32_t>(i);
  const auto larger = [shares](uint32_t a, uint32_t b) {
    return shares[a] != shares[b] ? shares[a] > shares[b] : a < b;
  };
  std::nth_element(order, order + (used - 1), order + experts, larger);
  for (uint64_t i = used; i < experts; ++i) shares[order[i]] = 0;
  if (!normalise) return;
  T sum = 0;
  for (uint64_t i = 0; i < experts; ++i) sum += shares[i];
  for (uint64_t i = 0; i < experts; ++i) shares[i] /= sum;
}

// A score that is not a number would have no place in any order.
template <typename T>
bool has_nan(const T* values, uint64_t count) {
  return std::any_of(values, values + count, [](T value) { return value != value; });
}

bool supports_gates(const Context& context, const ExpertGatesArgs& args) {
  return has_kernel(context, args.scores.dtype(), [](const auto& table) { return table.softmax; });
}

Result<Tensor> run_gates(Context& context, const ExpertGatesArgs& args) {
  const uint64_t rows = args.scores.dims()[0], experts = args.scores.dims()[1];
  BALLAST_TRY(Tensor gates, context.workspace().make(args.scores.dims(), args.scores.dtype()));
  if (gates.count() == 0) return gates;
  BALLAST_TRY(Tensor order, context.workspace().make({experts}, DType::kU32));
  with_type(gates.dtype(), [&]<typename T>() {
    T* shares = host_data<T>(gates);
    kernels<T>(context).softmax(host_data<const T>(args.scores), shares, rows, experts, context.threads());
    for (uint64_t row = 0; row < rows; ++row, shares += experts) {
      if (has_nan(shares, experts)) continue;  // it must show: all of them stay
      keep_largest(shares, host_data<uint32_t>(order), experts, args.used, args.normalise);
    }
  });
  return gates;
}

// ---------------------------------------------------------------- what they say

// Rows of x that one expert is asked about.
struct Share {
  Tensor rows;  // their numbers, u32
  Tensor x;     // they themselves, one after the other
  uint64_t count = 0;
};

template <typename T>
Result<Share> gather_share(Context& context, const ExpertMlpArgs& args, uint64_t expert) {
  const uint64_t rows = args.x.dims()[0], width = args.x.dims()[1], experts = args.gates.dims()[1];
  Share share;
  BALLAST_TRY(share.rows, context.workspace().make({rows}, DType::kU32));
  for (uint64_t row = 0; row < rows; ++row) {
    if (host_data<const T>(args.gates)[row * experts + expert] == T{0}) continue;
    host_data<uint32_t>(share.rows)[share.count++] = static_cast<uint32_t>(row);
  }
  if (share.count == 0 || share.count == rows) {
    share.x = args.x;
    return share;
  }
  BALLAST_TRY(share.x, context.workspace().make({share.count, width}, args.x.dtype()));
  for (uint64_t i = 0; i < share.count; ++i) {
    const uint64_t row = host_data<const uint32_t>(share.rows)[i];
    std::memcpy(host_data<T>(share.x) + i * width, host_data<const T>(args.x) + row * width, width * sizeof(T));
  }
  return share;
}

// Whoever replaces or watches linear meets the experts' matrices too.
Result<Tensor> through(Context& context, const Tensor& x, const Expert::Matrix& matrix) {
  const LinearOptions options{.layout = WeightLayout::kOutIn, .rows = matrix.rows};
  if (context.registry().is_overridden("linear")) return linear(context, x, matrix.weight, options);
  return product(context, x, matrix.weight, options);
}

template <typename T>
void add_share(const ExpertMlpArgs& args, const Share& share, uint64_t expert, const Tensor& said, Tensor& y) {
  const uint64_t width = y.dims()[1], experts = args.gates.dims()[1];
  for (uint64_t i = 0; i < share.count; ++i) {
    const uint64_t row = host_data<const uint32_t>(share.rows)[i];
    const T gate = host_data<const T>(args.gates)[row * experts + expert];
    const T* from = host_data<const T>(said) + i * width;
    T* to = host_data<T>(y) + row * width;
    for (uint64_t j = 0; j < width; ++j) to[j] += gate * from[j];
  }
}

// In the order of the experts, whatever the order of their gates.
template <typename T>
Status ask_experts(Context& context, const ExpertMlpArgs& args, Tensor& y) {
  for (uint64_t i = 0; i < args.experts.size(); ++i) {
    BALLAST_TRY(const Share share, gather_share<T>(context, args, i));
    if (share.count == 0) continue;
    const Expert& expert = args.experts[i];
    BALLAST_TRY(const Tensor gate, through(context, share.x, expert.gate));
    BALLAST_TRY(const Tensor up, through(context, share.x, expert.up));
    BALLAST_TRY(const Tensor hidden, gated(context, args.activation, gate, up));
    BALLAST_TRY(const Tensor said, through(context, hidden, expert.down));
    add_share<T>(args, share, i, said, y);
  }
  return {};
}

bool supports_mlp(const Context& context, const ExpertMlpArgs& args) {
  return has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gemm; });
}

Result<Tensor> run_mlp(Context& context, const ExpertMlpArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().zeros(args.x.dims(), args.x.dtype()));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() { return ask_experts<T>(context, args, y); }));
  return y;
}

}  // namespace

void add_experts(Registry& registry) {
  registry.add_builtin(supports_gates, run_gates);
  registry.add_builtin(supports_mlp, run_mlp);
}

}  // namespace ballast::host
