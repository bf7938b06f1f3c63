#include "ballast/ops/stochastic.h"

#include <fmt/format.h>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

// Which elements stay follows from the key alone: the gradient drops the same ones.
Result<Tensor> drop(Context& context, const Tensor& x, float p, uint64_t key) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::dropout, "dropout"));
    table->dropout(x.data<T>(), y.writable<T>(), x.count(), p, key, context.threads());
    return {};
  }));
  return y;
}

bool supports_dropout(const Context& context, const DropoutArgs& args) {
  return !args.drops() ||
         has_kernel(context, args.x.dtype(), [](const auto& table) { return table.gradients.dropout; });
}

Result<Tensor> run_dropout(Context& context, const DropoutArgs& args) {
  return args.drops() ? drop(context, args.x, args.p, *args.key) : args.x;
}

struct DropoutStep {
  float p;
  uint64_t key;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, drop(context, dy, p, key));
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

void add_stochastic(Registry& registry) { add_builtin(registry, supports_dropout, run_dropout); }

}  // namespace ballast::ops
