#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/metric.h"

namespace ballast::ops {

namespace {

struct SquareDistancesStep {
  Tensor a, b;
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (a_input.is_followed()) {
      BALLAST_TRY(Tensor da, context.workspace().make(a.dims(), a.dtype()));
      BALLAST_CHECK(context.registry().run(context, SquareDistancesGradientArgs{a, b, dy, false, da}));
      BALLAST_CHECK(tape.add(context, a_input, da));
    }
    if (!b_input.is_followed()) return {};
    BALLAST_TRY(Tensor db, context.workspace().make(b.dims(), b.dtype()));
    BALLAST_CHECK(context.registry().run(context, SquareDistancesGradientArgs{b, a, dy, true, db}));
    return tape.add(context, b_input, db);
  }
};

}  // namespace

Status SquareDistancesArgs::check() const {
  BALLAST_CHECK(check_activation("a", a, 2));
  BALLAST_CHECK(check_activation("b", b, 2));
  if (a.dtype() == b.dtype() && a.dims()[1] == b.dims()[1]) return {};
  return does_not_fit(named("a", a), named("b", b), "their rows must be of one length and type");
}
std::string SquareDistancesArgs::text() const { return fmt::format("{} from {}", typed(a), typed(b)); }

void SquareDistancesArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(a) && !tape.follows(b)) return;
  tape.record(y, SquareDistancesStep{a, b, tape.input(a), tape.input(b)});
}

Result<Tensor> square_distances(Context& context, const Tensor& a, const Tensor& b) {
  return context.registry().call(context, SquareDistancesArgs{a, b});
}

}  // namespace ballast::ops
