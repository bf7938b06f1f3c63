#include "ballast/nn/parts.h"

#include <fmt/format.h>

#include <cmath>

namespace ballast::nn {

namespace {

std::string join(const std::string& name, std::string_view key) {
  return name.empty() ? std::string(key) : fmt::format("{}.{}", name, key);
}

double root(double x) { return std::sqrt(x); }

}  // namespace

Initial linear_weight_initial(uint64_t in, uint64_t out) {
  return Initial::uniform(root(6 / (static_cast<double>(in) + static_cast<double>(out))));
}
Initial linear_bias_initial(uint64_t out) { return Initial::uniform(root(6 / static_cast<double>(out))); }
Initial conv_initial(uint64_t fan_in) { return Initial::uniform(1 / root(static_cast<double>(fan_in))); }

Tensor as_rows(const Tensor& x) { return x.reshaped({x.dims().leading(), x.dims().back()}); }

Tensor with_last(const Tensor& rows, const Dims& like) {
  Dims dims = like;
  dims[dims.rank() - 1] = rows.dims().back();
  return rows.reshaped(dims);
}

Error wrong_input(const Layer& layer, const Tensor& x, std::string_view needed) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the input is {} {}, and the layer needs {}", layer.type(), dtype_name(x.dtype()),
                                x.dims().to_string(), needed));
}

Result<Tensor> run_dropout(Pass& pass, const Tensor& x, float p, std::optional<uint64_t> seed) {
  if (!pass.training || p == 0) return x;
  RandomStream* const stream = pass.context.random;
  if (!seed || stream == nullptr) return ops::dropout(pass.context.at("dropout"), x, p, true);
  // A seed of the layer's own, and still another mask in every step.
  RandomStream own{*seed, stream->step, stream->draws++};
  pass.context.random = &own;
  auto y = ops::dropout(pass.context.at("dropout"), x, p, true);
  pass.context.random = stream;
  return y;
}

PartsLayer::LinearPart PartsLayer::add_linear(const std::string& name, uint64_t in, uint64_t out, bool bias) {
  LinearPart part{.in = in, .out = out};
  part.weight = add_tensor(join(name, "weight"), {in, out}, linear_weight_initial(in, out));
  if (bias) part.bias = add_tensor(join(name, "bias"), {out}, linear_bias_initial(out));
  return part;
}

PartsLayer::NormPart PartsLayer::add_layer_norm(const std::string& name, uint64_t features, double eps) {
  NormPart part{.eps = static_cast<float>(eps)};
  part.gamma = add_tensor(join(name, "gamma"), {features}, Initial::constant(1));
  part.beta = add_tensor(join(name, "beta"), {features}, Initial::constant(0));
  return part;
}

PartsLayer::NormPart PartsLayer::add_rms_norm(const std::string& name, uint64_t features, double eps) {
  NormPart part{.eps = static_cast<float>(eps)};
  part.gamma = add_tensor(join(name, "gamma"), {features}, Initial::constant(1));
  return part;
}

Result<Tensor> PartsLayer::run_linear(Pass& pass, const LinearPart& part, const Tensor& x, Activation activation,
                                      const Tensor* residual) const {
  if (x.dims().rank() == 0 || x.dims().back() != part.in) {
    return wrong_input(*this, x, fmt::format("{} values in its last dimension", part.in));
  }
  std::optional<Tensor> residual_rows;
  if (residual != nullptr) residual_rows = as_rows(*residual);
  const ops::LinearOptions options{
      .bias = find_param(part.bias), .activation = activation, .residual = residual_rows ? &*residual_rows : nullptr};
  BALLAST_TRY(const Tensor y, ops::linear(pass.context, as_rows(x), param(part.weight), options));
  return with_last(y, x.dims());
}

Result<Tensor> PartsLayer::run_norm(Pass& pass, const NormPart& part, const Tensor& x) const {
  if (part.beta == kNone) return ops::rms_norm(pass.context, x, param(part.gamma), part.eps);
  return ops::layer_norm(pass.context, x, param(part.gamma), param(part.beta), part.eps);
}

}  // namespace ballast::nn
