#include "ballast/ops/stochastic.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

namespace {

struct DropoutStep {
  float p;
  uint64_t key;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    const DropoutArgs same{dy, p, true, key};  // which elements stay follows from the key alone
    BALLAST_TRY(const Tensor dx, context.registry().call(context, same));
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status DropoutArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  if (!(p >= 0 && p < 1)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("p is {} and must be at least 0 and below 1", p));
  }
  if (!drops() || key) return {};
  return make_error(ErrorCode::kInvalidArgument, "in training it needs random numbers, and the context has none");
}
std::string DropoutArgs::text() const { return fmt::format("{}{}", typed(x), training ? " in training" : ""); }

// Where nothing is dropped the output is the input, and so is its gradient.
void DropoutArgs::record(Tape& tape, const Tensor& y) const {
  if (drops() && tape.follows(x)) tape.record(y, DropoutStep{p, *key, tape.input(x)});
}

Result<Tensor> dropout(Context& context, const Tensor& x, float p, bool training) {
  DropoutArgs args{x, p, training, std::nullopt};
  if (args.drops() && context.random != nullptr) args.key = context.random->next_key();
  return context.registry().call(context, args);
}

}  // namespace ballast::ops
