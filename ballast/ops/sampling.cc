#include "ballast/ops/sampling.h"

#include <fmt/format.h>

#include <array>

#include "ballast/base/checked.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 3> kMethodNames = {"nearest", "bilinear", "bilinear with aligned corners"};

struct UpsampleStep {
  uint64_t factor;
  Upsampling method;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    BALLAST_CHECK(context.registry().run(context, Upsample2dGradientArgs{factor, method, dy, dx}));
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status Upsample2dArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  if (factor != 0 && checked_mul(x.dims()[1], factor) && checked_mul(x.dims()[2], factor)) return {};
  return refused(named("x", x), fmt::format("it cannot be enlarged by {}", factor));
}
std::string Upsample2dArgs::text() const {
  return fmt::format("{} by {}, {}", typed(x), factor, kMethodNames[static_cast<size_t>(method)]);
}

void Upsample2dArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, UpsampleStep{factor, method, tape.input(x)});
}

Result<Tensor> upsample2d(Context& context, const Tensor& x, uint64_t factor, Upsampling method) {
  return context.registry().call(context, Upsample2dArgs{x, factor, method});
}

}  // namespace ballast::ops
