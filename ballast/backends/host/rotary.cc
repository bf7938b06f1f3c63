#include "ballast/ops/rotary.h"

#include <cmath>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/update_routines.h"

namespace ballast::host {

namespace {

constexpr auto kPickRope = [](const auto& table) { return table.rope; };

template <typename T>
void turn(Context& context, T* x, const RopeTables& tables, uint64_t heads, uint64_t head_dim, uint64_t stride) {
  RopeProblem<T> problem{};
  problem.x = x;
  problem.cosines = host_data<const T>(tables.cosines);
  problem.sines = host_data<const T>(tables.sines);
  problem.positions = tables.cosines.dims()[0];
  problem.heads = heads;
  problem.head_dim = head_dim;
  problem.rotary_dim = 2 * tables.cosines.dims()[1];
  problem.stride = stride;
  problem.interleaved = tables.layout == RopeLayout::kPairs;
  kernels<T>(context).rope(problem, context.threads());
}

bool supports_rope(const Context& context, const ApplyRopeArgs& args) {
  return has_kernel(context, args.x.dtype(), kPickRope);
}

Result<Tensor> turned(Context& context, const Tensor& x, const RopeTables& tables) {
  BALLAST_TRY(Tensor y, context.workspace().copy(x));
  if (y.count() == 0) return y;
  const uint64_t heads = y.dims()[1];
  const uint64_t head_dim = y.dims()[2];
  with_type(y.dtype(),
            [&]<typename T>() { turn<T>(context, host_data<T>(y), tables, heads, head_dim, heads * head_dim); });
  return y;
}

Result<Tensor> run_rope(Context& context, const ApplyRopeArgs& args) { return turned(context, args.x, args.tables); }

bool supports_rope_packed(const Context& context, const ApplyRopeQkvPackedArgs& args) {
  return has_kernel(context, args.qkv.dtype(), kPickRope);
}

Result<Tensor> turned_packed(Context& context, const AttentionConfig& config, const Tensor& qkv,
                             const RopeTables& tables) {
  BALLAST_TRY(Tensor y, context.workspace().copy(qkv));
  if (y.count() == 0) return y;
  with_type(y.dtype(), [&]<typename T>() {
    T* q = host_data<T>(y);
    for (uint64_t sequence = 0; sequence < config.sequences; ++sequence) {
      turn<T>(context, q, tables, config.q_heads, config.head_dim, y.dims()[1]);
      turn<T>(context, q + config.q_width(), tables, config.kv_heads, config.head_dim, y.dims()[1]);
      q += y.count() / config.sequences;
    }
  });
  return y;
}

Result<Tensor> run_rope_packed(Context& context, const ApplyRopeQkvPackedArgs& args) {
  return turned_packed(context, args.config, args.qkv, args.tables);
}

// In double all the way: an angle at a far position has lost its digits in single precision.
template <typename T>
void fill_tables(const RopeTablesArgs& args) {
  RopeTables& tables = args.tables;
  const uint64_t half = tables.cosines.dims()[1];
  T* cosines = host_data<T>(tables.cosines);
  T* sines = host_data<T>(tables.sines);
  const double scale = rope_magnitude(args.config.scaling, kDTypeOf<T>);
  for (const RopeStretch& stretch : args.stretches) {
    for (uint64_t i = 0; i < half; ++i) {
      const double turn = rope_frequency(args.config, i, whole_length(stretch), kDTypeOf<T>);
      for (uint64_t p = 0; p < stretch.positions; ++p) {
        const double angle = static_cast<double>(stretch.first_position + p) * turn;
        cosines[p * half + i] = static_cast<T>(std::cos(angle) * scale);
        sines[p * half + i] = static_cast<T>(std::sin(angle) * scale);
      }
    }
    cosines += stretch.positions * half;
    sines += stretch.positions * half;
  }
}

Status run_rope_tables(Context&, const RopeTablesArgs& args) {
  with_type(args.tables.cosines.dtype(), [&]<typename T>() { fill_tables<T>(args); });
  return {};
}

}  // namespace

void add_rotary(Registry& registry) {
  registry.add_builtin(supports_rope, run_rope);
  registry.add_builtin(supports_rope_packed, run_rope_packed);
  registry.add_routine(run_rope_tables);
}

}  // namespace ballast::host
