#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

struct GroupNormStep {
  uint64_t groups;
  Param gamma, beta;
  bool to_gamma, to_beta;
  float eps;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (to_beta) {
      BALLAST_TRY(const GradientPlace place, tape.place(beta, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, dy, place));
    }
    if (!to_gamma && !input.is_followed()) return {};
    BALLAST_TRY(Tensor dx, make_wanted(context, input.is_followed(), dy.dims(), dy.dtype()));
    BALLAST_TRY(Tensor terms, make_wanted(context, to_gamma, dy.dims(), dy.dtype()));
    BALLAST_CHECK(
        context.registry().run(context, GroupNormGradientArgs{x, groups, gamma, eps, dy, wanted(dx), wanted(terms)}));
    if (to_gamma) {
      BALLAST_TRY(const GradientPlace place, tape.place(gamma, dy.dtype()));
      BALLAST_CHECK(add_column_sums(context, terms, place));
    }
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

}  // namespace

Status GroupNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  BALLAST_CHECK(check_vector("beta", beta, "x", x));
  if (groups != 0 && x.dims()[3] % groups == 0) return {};
  return refused(named("x", x), fmt::format("{} channels do not divide into {} groups", x.dims()[3], groups));
}
std::string GroupNormArgs::text() const { return fmt::format("{} groups {} gamma {}", typed(x), groups, typed(gamma)); }

void GroupNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, GroupNormStep{groups, gamma, beta, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

Result<Tensor> group_norm(Context& context, const Tensor& x, uint64_t groups, const Param& gamma, const Param& beta,
                          float eps) {
  return context.registry().call(context, GroupNormArgs{x, groups, gamma, beta, eps});
}

}  // namespace ballast::ops
