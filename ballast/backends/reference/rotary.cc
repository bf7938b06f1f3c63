#include "ballast/ops/rotary.h"

#include <cmath>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/rotary_order.h"
#include "ballast/ops/update_routines.h"

namespace ballast::reference {

namespace {

// Turns the first channels of one head at one position.
template <typename T>
void turn(const RopeTables& tables, uint64_t position, T* channels) {
  const uint64_t half = tables.cosines.dims()[1];
  const bool in_pairs = tables.layout == RopeLayout::kPairs;
  for (uint64_t i = 0; i < half; ++i) {
    const T cosine = host_data<const T>(tables.cosines)[position * half + i];
    const T sine = host_data<const T>(tables.sines)[position * half + i];
    T& a = channels[in_pairs ? 2 * i : i];
    T& b = channels[in_pairs ? 2 * i + 1 : i + half];
    const T turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }
}

Result<Tensor> run_rope(Context& context, const ApplyRopeArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().copy(args.x));
  const uint64_t heads = y.dims()[1], head_dim = y.dims()[2];
  with_type(y.dtype(), [&]<typename T>() {
    each(context, y.dims()[0] * heads, [&](size_t i) { turn(args.tables, i / heads, host_data<T>(y) + i * head_dim); });
  });
  return y;
}

Result<Tensor> run_rope_packed(Context& context, const ApplyRopeQkvPackedArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().copy(args.qkv));
  const uint64_t length = y.dims()[0] / args.config.sequences;
  with_type(y.dtype(), [&]<typename T>() {
    each(context, y.dims()[0], [&](size_t row) {
      T* channels = host_data<T>(y) + row * y.dims()[1];
      for (uint64_t head = 0; head < args.config.q_heads + args.config.kv_heads; ++head) {
        turn(args.tables, row % length, channels + head * args.config.head_dim);
      }
    });
  });
  return y;
}

// In double all the way: an angle at a far position has lost its digits in single precision.
Status run_rope_tables(Context&, const RopeTablesArgs& args) {
  RopeTables& tables = args.tables;
  const DType dtype = tables.cosines.dtype();
  const uint64_t half = tables.cosines.dims()[1];
  const double magnitude = rope_magnitude(args.config.scaling, dtype);
  with_type(dtype, [&]<typename T>() {
    uint64_t row = 0;
    for (const RopeStretch& stretch : args.stretches) {
      for (uint64_t p = 0; p < stretch.positions; ++p, ++row) {
        const auto position = static_cast<double>(stretch.first_position + p);
        for (uint64_t i = 0; i < half; ++i) {
          const double angle = position * rope_frequency(args.config, i, whole_length(stretch), dtype);
          host_data<T>(tables.cosines)[row * half + i] = static_cast<T>(std::cos(angle) * magnitude);
          host_data<T>(tables.sines)[row * half + i] = static_cast<T>(std::sin(angle) * magnitude);
        }
      }
    }
  });
  return {};
}

// Which element of a row in pairs goes to `column` of the same row in halves.
uint64_t column_in_pairs(const AttentionConfig& config, uint64_t column) {
  if (column >= config.q_width() + config.kv_width()) return column;
  const uint64_t channel = column % config.head_dim, half = config.head_dim / 2;
  return column - channel + (channel < half ? 2 * channel : 2 * (channel - half) + 1);
}

Result<Tensor> run_pairs_to_halves(Context& context, const PairsToHalvesArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.qkv));
  const uint64_t width = args.qkv.dims()[1];
  with_type(y.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.qkv);
    T* to = host_data<T>(y);
    each_element(context, y.count(),
                 [&](size_t i) { to[i] = from[i - i % width + column_in_pairs(args.config, i % width)]; });
  });
  return y;
}

Status run_halves_to_pairs(Context& context, const HalvesToPairsArgs& args) {
  const uint64_t width = args.dy.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    each_element(context, args.dy.count(),
                 [&](size_t i) { to[i - i % width + column_in_pairs(args.config, i % width)] = from[i]; });
  });
  return {};
}

}  // namespace

void add_rotary(Registry& registry) {
  registry.add_builtin<ApplyRopeArgs>(nullptr, run_rope);
  registry.add_builtin<ApplyRopeQkvPackedArgs>(nullptr, run_rope_packed);
  registry.add_builtin<PairsToHalvesArgs>(nullptr, run_pairs_to_halves);
  registry.add_routine(run_rope_tables);
  registry.add_routine(run_halves_to_pairs);
}

}  // namespace ballast::reference
