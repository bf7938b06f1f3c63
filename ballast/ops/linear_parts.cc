#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ballast/ops/activation.h"
#include "ballast/ops/check.h"
#include "ballast/ops/linalg.h"
#include "ballast/ops/normalization.h"

namespace ballast::ops {

namespace {

Status check_norm(const Tensor& x, const NormStep& norm) {
  if (norm.gamma == nullptr) return {};
  if (norm.beta != nullptr) return LayerNormArgs{x, *norm.gamma, *norm.beta, norm.eps}.check();
  return RmsNormArgs{x, *norm.gamma, norm.eps, norm.shift}.check();
}

Result<Tensor> normed(Context& context, const Tensor& x, const NormStep& norm) {
  if (norm.gamma == nullptr) return x;
  context.at(norm.label);
  if (norm.beta != nullptr) return layer_norm(context, x, *norm.gamma, *norm.beta, norm.eps);
  return rms_norm(context, x, *norm.gamma, norm.eps, norm.shift);
}

// Gradients go to whole parameters: some rows of one are taken from the product with all of it then.
Result<Tensor> run_part(Context& context, const Tensor& x, const LinearPart& part) {
  const RowRange& rows = part.options.rows;
  context.at(part.label);
  if (context.tape == nullptr || rows.count == 0) return linear(context, x, part.weight, part.options);
  LinearOptions whole = part.options;
  whole.rows = {};
  BALLAST_TRY(const Tensor all, linear(context, x, part.weight, whole));
  return slice_along_axis(context, all, all.dims().rank() - 1, rows.first, rows.count);
}

uint64_t part_outputs(const LinearPart& part) { return size_of(part.weight, part.options.layout, part.options.rows).n; }

bool brings_own(const Registry& registry, Activation activation) {
  return activation != Activation::kNone && registry.is_overridden(functional_of(activation));
}

}  // namespace

Status LinearPartsArgs::check() const {
  if (parts.empty()) return refused(named("x", x), "there must be a weight");
  BALLAST_CHECK(check_norm(x, options.norm));
  for (const LinearPart& part : parts) {
    BALLAST_CHECK((LinearArgs{x, part.weight, part.options}.check()));
    if (part.options.residual != nullptr) return refused(named("weight", part.weight), "a part has no residual");
  }
  if (!options.is_gated) return {};
  if (parts.size() != 2) return refused(named("x", x), fmt::format("a gate takes two weights, not {}", parts.size()));
  if (part_outputs(parts[0]) == part_outputs(parts[1])) return {};
  return does_not_fit(named("gate", parts[0].weight), named("up", parts[1].weight), "both must have the same outputs");
}

std::string LinearPartsArgs::text() const {
  std::string text = fmt::format("{}{}", typed(x), options.norm.gamma != nullptr ? " normed" : "");
  for (const LinearPart& part : parts) text += fmt::format(", {}", LinearArgs{x, part.weight, part.options}.text());
  if (options.is_gated) text += fmt::format(", gated {}", to_text(options.gate));
  return text;
}

bool LinearPartsArgs::is_taken_apart(const Context& context) const {
  const Registry& registry = context.registry();
  const auto is_apart = [&](const LinearPart& part) {
    return LinearArgs{x, part.weight, part.options}.is_taken_apart(context);
  };
  const bool has_norm = options.norm.gamma != nullptr;
  return registry.is_overridden("linear") || std::ranges::any_of(parts, is_apart) ||
         (has_norm && registry.is_overridden(options.norm.beta != nullptr ? "layer_norm" : "rms_norm")) ||
         (!options.is_gated && registry.is_overridden("concat_along_axis")) ||
         (options.is_gated &&
          (brings_own(registry, options.gate) || registry.is_overridden("swiglu") || registry.is_overridden("binary")));
}

Result<Tensor> LinearPartsArgs::run_in_steps(Context& context) const {
  BALLAST_TRY(const Tensor rows, normed(context, x, options.norm));
  std::vector<Tensor> outputs;
  for (const LinearPart& part : parts) {
    BALLAST_TRY(outputs.emplace_back(), run_part(context, rows, part));
  }
  if (options.is_gated) return gated(context.at(options.label), options.gate, outputs[0], outputs[1]);
  if (outputs.size() == 1) return outputs.front();
  return concat_along_axis(context.at(options.label), outputs, x.dims().rank() - 1);
}

Result<Tensor> linear_parts(Context& context, const Tensor& x, std::span<const LinearPart> parts,
                            const LinearPartsOptions& options) {
  const LinearPartsArgs args{x, parts, options};
  if (context.shows_steps()) {
    BALLAST_CHECK(context.at(options.label).registry().check(context, args));
    return args.run_in_steps(context);
  }
  return context.at(options.label).registry().call(context, args);
}

}  // namespace ballast::ops
