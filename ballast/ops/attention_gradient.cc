#include "ballast/ops/attention.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/rounding.h"

namespace ballast::ops {

namespace {

template <typename T>
Status run_gradient(Context& context, const AttentionConfig& config, const Tensor& qkv, const Tensor& out,
                    const Tensor& dout, Tensor& dqkv) {
  BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::attention, "gradients of attention"));
  AttentionGradient<T> problem{};
  problem.qkv = qkv.data<T>();
  problem.out = out.data<T>();
  problem.dout = dout.data<T>();
  problem.dqkv = dqkv.writable<T>();
  problem.sequences = config.sequences;
  problem.length = qkv.dims()[0] / config.sequences;
  problem.q_heads = config.q_heads;
  problem.kv_heads = config.kv_heads;
  problem.head_dim = config.head_dim;
  problem.causal = config.causal;
  problem.scale = score_scale<T>(config);
  problem.window = config.window;
  problem.soft_cap = static_cast<T>(config.soft_cap);
  const auto scratch_size = kernels<T>(context).gradients.attention_scratch;
  const uint64_t elements = scratch_size != nullptr ? scratch_size(problem, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table->attention(problem, scratch.writable<T>(), context.threads());
  return {};
}

struct AttentionStep {
  AttentionConfig config;
  Tensor qkv, out;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dqkv, context.workspace().make(qkv.dims(), qkv.dtype()));
    if (dqkv.count() == 0) return tape.add(context, input, dqkv);
    BALLAST_TRY(const Tensor operand, product_operand(context, qkv));
    BALLAST_TRY(const Tensor dout, product_operand(context, dy));
    BALLAST_CHECK(with_type(qkv.dtype(),
                            [&]<typename T>() { return run_gradient<T>(context, config, operand, out, dout, dqkv); }));
    return tape.add(context, input, dqkv);
  }
};

}  // namespace

void AttentionArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(qkv)) tape.record(y, AttentionStep{config, qkv, y, tape.input(qkv)});
}

}  // namespace ballast::ops
