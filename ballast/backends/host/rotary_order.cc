#include "ballast/ops/rotary_order.h"

#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

constexpr size_t kOrderGrain = 16;  // rows

enum class ChannelOrder : uint8_t { kPairsToHalves, kHalvesToPairs };

template <typename T>
void reorder_row(const T* from, T* to, uint64_t turned, uint64_t head_dim, ChannelOrder order) {
  const uint64_t half = head_dim / 2;
  for (uint64_t head = 0; head < turned; head += head_dim) {
    for (uint64_t i = 0; i < head_dim; ++i) {
      const uint64_t pairs = head + i, halves = head + i % 2 * half + i / 2;
      if (order == ChannelOrder::kPairsToHalves) to[halves] = from[pairs];
      else to[pairs] = from[halves];
    }
  }
}

void reorder(Context& context, const AttentionConfig& config, const Tensor& qkv, ChannelOrder order, Tensor& y) {
  const uint64_t width = qkv.dims()[1], turned = config.q_width() + config.kv_width();
  with_type(qkv.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(qkv);
    T* to = host_data<T>(y);
    context.threads().for_ranges(qkv.dims()[0], kOrderGrain, [=](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        reorder_row(from + row * width, to + row * width, turned, config.head_dim, order);
        std::copy(from + row * width + turned, from + (row + 1) * width, to + row * width + turned);
      }
    });
  });
}

Result<Tensor> run_pairs_to_halves(Context& context, const PairsToHalvesArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.qkv.dims(), args.qkv.dtype()));
  reorder(context, args.config, args.qkv, ChannelOrder::kPairsToHalves, y);
  return y;
}

Status run_halves_to_pairs(Context& context, const HalvesToPairsArgs& args) {
  reorder(context, args.config, args.dy, ChannelOrder::kHalvesToPairs, args.dx);
  return {};
}

}  // namespace

void add_rotary_order(Registry& registry) {
  registry.add_builtin<PairsToHalvesArgs>(nullptr, run_pairs_to_halves);
  registry.add_routine(run_halves_to_pairs);
}

}  // namespace ballast::host
