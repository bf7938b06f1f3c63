#include "ballast/ops/experts.h"

#include <algorithm>
#include <vector>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/product.h"
#include "ballast/device/host_values.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool supports_gates(const Context&, const ExpertGatesArgs& args) { return is_f32(args.scores); }

Result<Tensor> run_gates(Context& context, const ExpertGatesArgs& args) {
  const uint64_t rows = args.scores.dims()[0], experts = args.scores.dims()[1];
  BALLAST_TRY(Tensor gates, context.workspace().make(args.scores.dims(), args.scores.dtype()));
  BALLAST_CHECK(launch(context, Kernel::expert_gates_f32, grid_over(rows * 32), device_address(args.scores),
                       device_address(gates), static_cast<uint32_t>(experts), static_cast<uint32_t>(args.used),
                       static_cast<uint32_t>(args.normalise), rows));
  return gates;
}

bool supports_mlp(const Context& context, const ExpertMlpArgs& args) {
  const auto can_multiply = [&](const Expert::Matrix& matrix) {
    return supports_product(context, matrix.weight, {.layout = WeightLayout::kOutIn, .rows = matrix.rows});
  };
  return is_f32(args.x) && std::ranges::all_of(args.experts, [&](const Expert& expert) {
           return can_multiply(expert.gate) && can_multiply(expert.up) && can_multiply(expert.down);
         });
}

// Whoever replaces or watches linear meets the experts' matrices too.
Result<Tensor> through(Context& context, const Tensor& x, const Expert::Matrix& matrix) {
  const LinearOptions options{.layout = WeightLayout::kOutIn, .rows = matrix.rows};
  if (context.registry().is_overridden("linear")) return linear(context, x, matrix.weight, options);
  return product(context, x, matrix.weight, options);
}

// y += gate * down(activation(gate(x)) * up(x)) for these rows.
Status add_expert(Context& context, const ExpertMlpArgs& args, uint64_t index, std::span<const uint32_t> rows,
                  const Tensor& y) {
  const uint64_t width = y.dims()[1];
  const Expert& expert = args.experts[index];
  BALLAST_TRY(const Tensor ids, upload(context, rows));
  BALLAST_TRY(const Tensor x, context.workspace().make({rows.size(), width}));
  BALLAST_CHECK(launch(context, Kernel::lookup_f32, {.grid = {blocks_for(rows.size(), 1)}, .block = {256}},
                       device_address(args.x), static_cast<uint32_t>(WeightType::kF32), width * sizeof(float),
                       device_address(ids), device_address(x), width));
  BALLAST_TRY(const Tensor gate, through(context, x, expert.gate));
  BALLAST_TRY(const Tensor up, through(context, x, expert.up));
  BALLAST_TRY(const Tensor hidden, gated(context, args.activation, gate, up));
  BALLAST_TRY(const Tensor said, through(context, hidden, expert.down));
  return launch(context, Kernel::add_expert_f32, grid_over(said.count()), device_address(said), device_address(ids),
                device_address(args.gates), device_address(y), args.gates.dims()[1], index, width, said.count());
}

// The host reads the gates, because parameters of experts that no row uses are not to be touched.
Result<Tensor> run_mlp(Context& context, const ExpertMlpArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().zeros(args.x.dims(), args.x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const auto gates, HostValues<float>::of(args.gates));
  const uint64_t experts = args.experts.size();
  for (uint64_t i = 0; i < experts; ++i) {
    std::vector<uint32_t> rows;
    for (uint64_t row = 0; row < y.dims()[0]; ++row) {
      if (gates[row * experts + i] != 0) rows.push_back(static_cast<uint32_t>(row));
    }
    if (!rows.empty()) BALLAST_CHECK(add_expert(context, args, i, rows, y));
  }
  return y;
}

}  // namespace

void add_experts(Registry& registry) {
  add_functional<ExpertGatesArgs, run_gates, supports_gates>(registry);
  add_functional<ExpertMlpArgs, run_mlp, supports_mlp>(registry);
}

}  // namespace ballast::cuda
