#include "ballast/ops/rotary.h"

#include <fmt/format.h>

#include <cstring>

#include "ballast/ops/attention.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

namespace {

constexpr auto kPickRope = [](const auto& table) { return table.rope; };

Result<Tensor> copy_of(Context& context, const Tensor& x) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  std::memcpy(y.writable<std::byte>(), x.bytes().data(), x.bytes().size());
  return y;
}

template <typename T>
void turn(Context& context, T* x, const RopeTables& tables, uint64_t heads, uint64_t head_dim, uint64_t stride) {
  RopeProblem<T> problem{};
  problem.x = x;
  problem.cosines = tables.cosines.data<T>();
  problem.sines = tables.sines.data<T>();
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
  BALLAST_TRY(Tensor y, copy_of(context, x));
  if (y.count() == 0) return y;
  const uint64_t heads = y.dims()[1];
  const uint64_t head_dim = y.dims()[2];
  with_type(y.dtype(),
            [&]<typename T>() { turn<T>(context, y.writable<T>(), tables, heads, head_dim, heads * head_dim); });
  return y;
}

Result<Tensor> run_rope(Context& context, const ApplyRopeArgs& args) { return turned(context, args.x, args.tables); }

bool supports_rope_packed(const Context& context, const ApplyRopeQkvPackedArgs& args) {
  return has_kernel(context, args.qkv.dtype(), kPickRope);
}

Result<Tensor> turned_packed(Context& context, const AttentionConfig& config, const Tensor& qkv,
                             const RopeTables& tables) {
  BALLAST_TRY(Tensor y, copy_of(context, qkv));
  if (y.count() == 0) return y;
  with_type(y.dtype(), [&]<typename T>() {
    T* q = y.writable<T>();
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

// By the same angles in the other direction, which is where gradients go.
Result<RopeTables> reversed(Context& context, const RopeTables& tables) {
  BALLAST_TRY(Tensor sines, unary(context, UnaryOp::kNeg, tables.sines));
  return RopeTables{tables.cosines, std::move(sines), tables.layout};
}

struct RopeStep {
  RopeTables tables;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const RopeTables back, reversed(context, tables));
    BALLAST_TRY(const Tensor dx, turned(context, dy, back));
    return tape.add(context, input, dx);
  }
};

struct RopePackedStep {
  AttentionConfig config;
  RopeTables tables;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const RopeTables back, reversed(context, tables));
    BALLAST_TRY(const Tensor dx, turned_packed(context, config, dy, back));
    return tape.add(context, input, dx);
  }
};

Status check_tables(std::string_view role, const Tensor& x, const RopeTables& tables, uint64_t positions,
                    uint64_t head_dim) {
  BALLAST_CHECK(check_activation("cosines", tables.cosines, 2));
  BALLAST_CHECK(check_same("cosines", tables.cosines, "sines", tables.sines));
  const Dims& dims = tables.cosines.dims();
  if (tables.cosines.dtype() != x.dtype()) {
    return does_not_fit(fmt::format("{} {}", role, typed(x)), "cosines " + typed(tables.cosines),
                        "both must have the same type");
  }
  if (dims[0] != positions) {
    const uint64_t sequences = positions == 0 ? 1 : x.dims()[0] / positions;
    return does_not_fit(named(role, x), named("cosines", tables.cosines),
                        fmt::format("the first dimension of {} must be {}", role, dims[0] * sequences));
  }
  if (dims[1] <= head_dim / 2) return {};
  return does_not_fit(named(role, x), named("cosines", tables.cosines),
                      fmt::format("heads of {} cannot have {} channels turned", head_dim, 2 * dims[1]));
}

}  // namespace

Status ApplyRopeArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 3));
  return check_tables("x", x, tables, x.dims()[0], x.dims()[2]);
}
std::string ApplyRopeArgs::text() const { return fmt::format("{} by {}", typed(x), typed(tables.cosines)); }

Status ApplyRopeQkvPackedArgs::check() const {
  BALLAST_CHECK(check_packed(config, qkv));
  return check_tables("qkv", qkv, tables, qkv.dims()[0] / config.sequences, config.head_dim);
}
std::string ApplyRopeQkvPackedArgs::text() const {
  return fmt::format("{} with {} query heads and {} key heads by {}", typed(qkv), config.q_heads, config.kv_heads,
                     typed(tables.cosines));
}

void ApplyRopeArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, RopeStep{tables, tape.input(x)});
}

void ApplyRopeQkvPackedArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(qkv)) tape.record(y, RopePackedStep{config, tables, tape.input(qkv)});
}

Result<Tensor> apply_rope(Context& context, const Tensor& x, const RopeTables& tables) {
  return context.registry().call(context, ApplyRopeArgs{x, tables});
}
Result<Tensor> apply_rope_qkv_packed(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                     const RopeTables& tables) {
  return context.registry().call(context, ApplyRopeQkvPackedArgs{config, qkv, tables});
}

void add_rotary(Registry& registry) {
  add_builtin(registry, supports_rope, run_rope);
  add_builtin(registry, supports_rope_packed, run_rope_packed);
}

}  // namespace ballast::ops
