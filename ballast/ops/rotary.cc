#include "ballast/ops/rotary.h"

#include <fmt/format.h>

#include "ballast/ops/attention.h"
#include "ballast/ops/check.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

namespace {

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
    BALLAST_TRY(const Tensor dx, apply_rope(context, dy, back));
    return tape.add(context, input, dx);
  }
};

struct RopePackedStep {
  AttentionConfig config;
  RopeTables tables;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const RopeTables back, reversed(context, tables));
    BALLAST_TRY(const Tensor dx, apply_rope_qkv_packed(context, config, dy, back));
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

}  // namespace ballast::ops
