#include "ballast/ops/embedding.h"

#include <fmt/format.h>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

struct LookupStep {
  Param weight;
  std::span<const uint32_t> indices;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(weight, dy.dtype()));
    if (!place.add) BALLAST_CHECK(fill_zero(context, *place.gradient));
    return context.registry().run(context, ScatterRowsArgs{indices, dy, *place.gradient});
  }
};

}  // namespace

void EmbeddingLookupArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(weight)) tape.record(y, LookupStep{weight, tape.keep(indices)});
}

Status EmbeddingLookupArgs::check() const {
  BALLAST_CHECK(check_weight("weight", weight, 2));
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("the output cannot be {}", dtype_name(dtype)));
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < weight.shape()[0]) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("index {} at position {} is outside {}: its rows are 0 to {}", indices[i], i,
                                  named("weight", weight), static_cast<int64_t>(weight.shape()[0]) - 1));
  }
  return {};
}
std::string EmbeddingLookupArgs::text() const {
  return fmt::format("{} rows of {} as {}", indices.size(), typed(weight), dtype_name(dtype));
}

Result<Tensor> embedding_lookup(Context& context, const Param& weight, std::span<const uint32_t> indices, DType dtype) {
  return context.registry().call(context, EmbeddingLookupArgs{weight, indices, dtype});
}

}  // namespace ballast::ops
