#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

struct BatchNormStep {
  Param gamma, beta;
  Param mean, variance;  // where statistics are constants
  Tensor statistics;     // where they are those of x
  bool to_gamma, to_beta;
  float eps;
  Tensor x;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const PlacePair places, place_pair(context, tape, gamma, to_gamma, beta, to_beta, dy.dtype()));
    BALLAST_TRY(Tensor dx, make_wanted(context, input.is_followed(), dy.dims(), dy.dtype()));
    const bool is_constant = mean.valid();
    BALLAST_CHECK(context.registry().run(
        context, BatchNormGradientArgs{x, is_constant ? nullptr : &statistics, is_constant ? &mean : nullptr,
                                       is_constant ? &variance : nullptr, gamma, eps, dy, wanted(dx), places.first,
                                       places.second, places.add}));
    return input.is_followed() ? tape.add(context, input, dx) : Status();
  }
};

Status check_rows(const Tensor& x) {
  BALLAST_CHECK(check_activation("x", x));
  if (x.dims().rank() >= 2 && x.count() != 0) return {};
  return refused(named("x", x), "it must have rows and channels, and none of them 0");
}

}  // namespace

Status BatchStatisticsArgs::check() const { return check_rows(x); }
std::string BatchStatisticsArgs::text() const { return typed(x); }

Status BatchNormTrainingArgs::check() const {
  BALLAST_CHECK(check_rows(x));
  BALLAST_CHECK(check_activation("statistics", statistics, 2));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  BALLAST_CHECK(check_vector("beta", beta, "x", x));
  if (statistics.dims() == Dims{2, x.dims().back()} && statistics.dtype() == x.dtype()) return {};
  return does_not_fit("statistics " + typed(statistics), "x " + typed(x), "they must be batch_statistics of x");
}
std::string BatchNormTrainingArgs::text() const { return fmt::format("{} gamma {}", typed(x), typed(gamma)); }

Status BatchNormArgs::check() const {
  BALLAST_CHECK(check_rows(x));
  BALLAST_CHECK(check_vector("mean", mean, "x", x));
  BALLAST_CHECK(check_vector("variance", variance, "x", x));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  return check_vector("beta", beta, "x", x);
}
std::string BatchNormArgs::text() const { return fmt::format("{} gamma {}", typed(x), typed(gamma)); }

void BatchNormTrainingArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, BatchNormStep{
                     gamma, beta, {}, {}, statistics, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

void BatchNormArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(x) && !tape.follows(gamma) && !tape.follows(beta)) return;
  tape.record(y, BatchNormStep{
                     gamma, beta, mean, variance, {}, tape.follows(gamma), tape.follows(beta), eps, x, tape.input(x)});
}

Result<Tensor> batch_statistics(Context& context, const Tensor& x) {
  return context.registry().call(context, BatchStatisticsArgs{x});
}
Result<Tensor> batch_norm_training(Context& context, const Tensor& x, const Tensor& statistics, const Param& gamma,
                                   const Param& beta, float eps) {
  return context.registry().call(context, BatchNormTrainingArgs{x, statistics, gamma, beta, eps});
}
Result<Tensor> batch_norm(Context& context, const Tensor& x, const Param& mean, const Param& variance,
                          const Param& gamma, const Param& beta, float eps) {
  return context.registry().call(context, BatchNormArgs{x, mean, variance, gamma, beta, eps});
}

}  // namespace ballast::ops
