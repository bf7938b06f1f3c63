#include "ballast/ops/embedding.h"

#include <fmt/format.h>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

bool supports_lookup(const Context& context, const EmbeddingLookupArgs& args) {
  return has_kernel(context, args.dtype, [](const auto& table) { return table.widen; });
}

template <typename T>
Status read_rows(Context& context, const EmbeddingLookupArgs& args, Tensor& y) {
  const Param& weight = args.weight;
  const uint64_t features = weight.shape()[1];
  const size_t row_bytes = weight.row_bytes();
  const bool as_it_is = weight.dtype() == kDTypeOf<T>;
  Tensor row;
  if (!as_it_is) {
    BALLAST_TRY(row, context.workspace().make({row_bytes}, DType::kU8));
  }
  for (size_t i = 0; i < args.indices.size(); ++i) {
    T* out = y.writable<T>() + i * features;
    auto* bytes = as_it_is ? reinterpret_cast<std::byte*>(out) : row.writable<std::byte>();
    BALLAST_CHECK(weight.store().read_row(weight, args.indices[i], {bytes, row_bytes}));
    if (!as_it_is) kernels<T>(context).widen(WeightView{bytes, weight.dtype()}, out, features);
  }
  return {};
}

Result<Tensor> run_lookup(Context& context, const EmbeddingLookupArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make({args.indices.size(), args.weight.shape()[1]}, args.dtype));
  if (y.count() == 0) return y;
  BALLAST_CHECK(with_type(args.dtype, [&]<typename T>() { return read_rows<T>(context, args, y); }));
  return y;
}

struct LookupStep {
  Param weight;
  std::span<const uint32_t> indices;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(weight, dy.dtype()));
    if (!place.add) fill_zero(*place.gradient);
    return with_type(dy.dtype(), [&]<typename T>() -> Status {
      BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::scatter_rows, "sums of rows"));
      table->scatter_rows(indices.data(), dy.data<T>(), place.gradient->writable<T>(), indices.size(),
                          weight.shape()[1], context.threads());
      return {};
    });
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

void add_embedding(Registry& registry) { add_builtin(registry, supports_lookup, run_lookup); }

}  // namespace ballast::ops
