#include "ballast/ops/normalization.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"

namespace ballast::ops {

Status LayerNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  BALLAST_CHECK(check_vector("gamma", gamma, "x", x));
  return check_vector("beta", beta, "x", x);
}
std::string LayerNormArgs::text() const {
  return fmt::format("{} gamma {} beta {}", typed(x), typed(gamma), typed(beta));
}

Status RmsNormArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  return check_vector("gamma", gamma, "x", x);
}
std::string RmsNormArgs::text() const {
  return fmt::format("{} gamma {}{}", typed(x), typed(gamma), shift != 0 ? fmt::format(" + {}", shift) : "");
}

Result<Tensor> layer_norm(Context& context, const Tensor& x, const Param& gamma, const Param& beta, float eps) {
  return context.registry().call(context, LayerNormArgs{x, gamma, beta, eps});
}
Result<Tensor> rms_norm(Context& context, const Tensor& x, const Param& gamma, float eps, float shift) {
  return context.registry().call(context, RmsNormArgs{x, gamma, eps, shift});
}

}  // namespace ballast::ops
