#include "ballast/ops/rotary_order.h"

#include <fmt/format.h>

#include "ballast/ops/attention.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

namespace {

struct PairsToHalvesStep {
  AttentionConfig config;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, HalvesToPairsArgs{config, dy, dx}));
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status PairsToHalvesArgs::check() const {
  BALLAST_CHECK(check_packed(config, qkv));
  if (config.head_dim % 2 == 0) return {};
  return refused(named("qkv", qkv), fmt::format("heads of {} channels have no pairs", config.head_dim));
}
std::string PairsToHalvesArgs::text() const {
  return fmt::format("{} with {} query heads and {} key heads", typed(qkv), config.q_heads, config.kv_heads);
}

void PairsToHalvesArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(qkv)) tape.record(y, PairsToHalvesStep{config, tape.input(qkv)});
}

Result<Tensor> pairs_to_halves(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.registry().call(context, PairsToHalvesArgs{config, qkv});
}

}  // namespace ballast::ops
