#include "ballast/ops/rotary_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/ops/attention.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/tape.h"

namespace ballast::ops {

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

Result<Tensor> reordered(Context& context, const AttentionConfig& config, const Tensor& qkv, ChannelOrder order) {
  BALLAST_TRY(Tensor y, context.workspace().make(qkv.dims(), qkv.dtype()));
  const uint64_t width = qkv.dims()[1], turned = config.q_width() + config.kv_width();
  with_type(qkv.dtype(), [&]<typename T>() {
    const T* from = qkv.data<T>();
    T* to = y.writable<T>();
    context.threads().for_ranges(qkv.dims()[0], kOrderGrain, [=](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        reorder_row(from + row * width, to + row * width, turned, config.head_dim, order);
        std::copy(from + row * width + turned, from + (row + 1) * width, to + row * width + turned);
      }
    });
  });
  return y;
}

// Every backend can: nothing is computed.
bool supports_order(const Context&, const PairsToHalvesArgs&) { return true; }

Result<Tensor> run_order(Context& context, const PairsToHalvesArgs& args) {
  return reordered(context, args.config, args.qkv, ChannelOrder::kPairsToHalves);
}

struct PairsToHalvesStep {
  AttentionConfig config;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, reordered(context, config, dy, ChannelOrder::kHalvesToPairs));
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status PairsToHalvesArgs::check() const {
  BALLAST_CHECK(check_packed(config, qkv));
  if (config.head_dim % 2 == 0) return {};
  return refused(named("qkv", qkv), fmt::format("heads of {} channels have no pairs", config.head_dim));
}
std::string PairsToHalvesArgs::text() const {
  return fmt::format("{} with {} query heads and {} key heads", typed(qkv), config.q_heads, config.kv_heads);
}

void PairsToHalvesArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(qkv)) tape.record(y, PairsToHalvesStep{config, tape.input(qkv)});
}

Result<Tensor> pairs_to_halves(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.registry().call(context, PairsToHalvesArgs{config, qkv});
}

void add_rotary_order(Registry& registry) { add_builtin(registry, supports_order, run_order); }

}  // namespace ballast::ops
