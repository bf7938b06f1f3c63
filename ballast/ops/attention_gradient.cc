#include "ballast/ops/attention.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

namespace {

struct AttentionStep {
  AttentionConfig config;
  Tensor qkv, out;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dqkv, context.workspace().make(qkv.dims(), qkv.dtype()));
    BALLAST_CHECK(context.registry().run(context, AttentionGradientArgs{config, qkv, out, dy, dqkv}));
    return tape.add(context, input, dqkv);
  }
};

}  // namespace

void AttentionArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(qkv)) tape.record(y, AttentionStep{config, qkv, y, tape.input(qkv)});
}

}  // namespace ballast::ops
