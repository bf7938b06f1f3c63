#include "ballast/nn/attention_parts.h"

#include <fmt/format.h>

#include <array>

namespace ballast::nn {

namespace {

// The tables of `length` positions, once for each sequence.
Result<ops::RopeTables> repeated_tables(Context& context, const ops::RopeConfig& config, uint64_t sequences,
                                        uint64_t length, DType dtype) {
  BALLAST_TRY(ops::RopeTables tables, ops::rope_tables(context, config, {0, length}, dtype));
  if (sequences == 1) return tables;
  const std::vector<Tensor> cosines(static_cast<size_t>(sequences), tables.cosines);
  const std::vector<Tensor> sines(static_cast<size_t>(sequences), tables.sines);
  BALLAST_TRY(tables.cosines, ops::concat_along_axis(context, cosines, 0));
  BALLAST_TRY(tables.sines, ops::concat_along_axis(context, sines, 0));
  return tables;
}

}  // namespace

Status check_heads(const LayerArgs& args, uint64_t features, uint64_t heads) {
  if (features % heads == 0) return {};
  return args.error(fmt::format("{} features cannot be shared out among {} heads", features, heads));
}

Result<float> dropout_rate(const LayerArgs& args) {
  const auto p = static_cast<float>(args.real("dropout"));
  if (!(p >= 0 && p < 1)) return args.error("\"dropout\" must be at least 0 and below 1");
  return p;
}

Result<Tensor> AttentionLayer::project(Pass& pass, const AttentionPart& part, const Tensor& rows) const {
  if (part.qkv.weight != kNone) return run_linear(pass, part.qkv, rows);
  BALLAST_TRY(Tensor q, run_linear(pass, part.q, rows));
  BALLAST_TRY(Tensor k, run_linear(pass, part.k, rows));
  BALLAST_TRY(Tensor v, run_linear(pass, part.v, rows));
  const std::array<Tensor, 3> packed = {std::move(q), std::move(k), std::move(v)};
  return ops::concat_along_axis(pass.context, packed, 1);
}

// netcl turns channels 2t and 2t + 1 against each other, ours the first half against the second. Queries and keys put
// into the other order alike give the same products, so they stay in it.
Result<Tensor> AttentionLayer::rotate(Pass& pass, const AttentionPart& part, const Tensor& packed,
                                      uint64_t sequences) const {
  Context& context = pass.context;
  const uint64_t rows = packed.dims()[0], half = part.head_dim() / 2;
  BALLAST_TRY(const ops::RopeTables tables,
              repeated_tables(context, {.rotary_dim = part.head_dim(), .theta = part.rope_base}, sequences,
                              rows / sequences, packed.dtype()));
  constexpr std::array<size_t, 3> kApart = {0, 2, 1};
  std::array<Tensor, 3> parts;
  for (size_t i = 0; i < 3; ++i) {
    BALLAST_TRY(parts[i], ops::slice_along_axis(context, packed, 1, i * part.features, part.features));
    if (i == 2) break;  // values are not turned
    const size_t norm = i == 0 ? part.q_norm : part.k_norm;
    Tensor heads = parts[i].reshaped({rows * part.heads, part.head_dim()});
    if (norm != kNone) {
      BALLAST_TRY(heads, ops::rms_norm(context, heads, param(norm), part.eps));
    }
    BALLAST_TRY(const Tensor apart, ops::transpose(context, heads.reshaped({rows * part.heads, half, 2}), kApart));
    BALLAST_TRY(const Tensor turned,
                ops::apply_rope(context, apart.reshaped({rows, part.heads, part.head_dim()}), tables));
    parts[i] = turned.reshaped({rows, part.features});
  }
  return ops::concat_along_axis(context, parts, 1);
}

Result<Tensor> AttentionLayer::run_attention(Pass& pass, const AttentionPart& part, const Tensor& x) const {
  const Dims& dims = x.dims();
  if ((dims.rank() != 2 && dims.rank() != 3) || dims.back() != part.features || x.count() == 0) {
    return wrong_input(*this, x, fmt::format("[sequences, length, {}]", part.features));
  }
  const uint64_t sequences = dims.rank() == 3 ? dims[0] : 1;
  BALLAST_TRY(Tensor packed, project(pass, part, as_rows(x)));
  if (part.rope_base != 0) {
    BALLAST_TRY(packed, rotate(pass, part, packed, sequences));
  }
  const ops::AttentionConfig config{.q_heads = part.heads,
                                    .kv_heads = part.heads,
                                    .head_dim = part.head_dim(),
                                    .sequences = sequences,
                                    .causal = part.causal};
  BALLAST_TRY(const Tensor mixed, ops::attention(pass.context, config, packed));
  BALLAST_TRY(Tensor y, run_linear(pass, part.out, mixed));
  BALLAST_TRY(y, run_dropout(pass, y, part.dropout));
  return y.reshaped(dims);
}

}  // namespace ballast::nn
