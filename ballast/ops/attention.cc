#include "ballast/ops/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "ballast/base/checked.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/kernel_access.h"
#include "ballast/ops/rounding.h"

namespace ballast::ops {

namespace {

constexpr auto kPickAttention = [](const auto& table) { return table.attention; };

std::string config_text(const AttentionConfig& config) {
  std::string text =
      fmt::format("{} query heads and {} key heads of {}", config.q_heads, config.kv_heads, config.head_dim);
  if (config.sequences != 1) text += fmt::format(", {} sequences", config.sequences);
  if (!config.causal) text += ", not causal";
  if (config.window != 0) text += fmt::format(", window {}", config.window);
  if (config.soft_cap != 0) text += fmt::format(", capped at {}", config.soft_cap);
  return text;
}

Result<Tensor> make_output(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.workspace().make({qkv.dims()[0], config.q_width()}, qkv.dtype());
}

// Everything but where keys and values lie.
template <typename T>
AttentionProblem<T> make_attention_problem(const AttentionConfig& config, const Tensor& qkv, Tensor& out) {
  AttentionProblem<T> problem{};
  problem.q = qkv.data<T>();
  problem.out = out.writable<T>();
  problem.q_count = qkv.dims()[0];
  problem.q_heads = config.q_heads;
  problem.kv_heads = config.kv_heads;
  problem.head_dim = config.head_dim;
  problem.q_stride = qkv.dims()[1];
  problem.scale = score_scale<T>(config);
  problem.window = config.window;
  problem.soft_cap = static_cast<T>(config.soft_cap);
  return problem;
}

// Keys or values of packed rows, head by head: [kv_heads, t, head_dim].
template <typename T>
void gather_heads(const AttentionConfig& config, const T* from, uint64_t positions, uint64_t stride, T* to) {
  for (uint64_t head = 0; head < config.kv_heads; ++head) {
    for (uint64_t i = 0; i < positions; ++i, to += config.head_dim) {
      std::memcpy(to, from + i * stride + head * config.head_dim, config.head_dim * sizeof(T));
    }
  }
}

template <typename T>
Status attend(Context& context, const AttentionConfig& config, const Tensor& qkv, Tensor& out) {
  const uint64_t positions = qkv.dims()[0] / config.sequences;
  const uint64_t stride = qkv.dims()[1];
  const uint64_t kv_count = positions * config.kv_width();
  BALLAST_TRY(Tensor heads, context.workspace().make({2, kv_count}, kDTypeOf<T>));
  T* const keys = heads.writable<T>();
  T* const values = keys + kv_count;
  auto problem = make_attention_problem<T>(config, qkv, out);
  problem.keys = reinterpret_cast<const std::byte*>(keys);
  problem.values = reinterpret_cast<const std::byte*>(values);
  problem.cache_dtype = kDTypeOf<T>;
  problem.q_count = positions;
  problem.capacity = positions;
  problem.first_position = 0;
  problem.sees_all = !config.causal;
  for (uint64_t sequence = 0; sequence < config.sequences; ++sequence) {
    const T* const k = problem.q + config.q_width();
    gather_heads(config, k, positions, stride, keys);
    gather_heads(config, k + config.kv_width(), positions, stride, values);
    kernels<T>(context).attention(problem, context.threads());
    problem.q += positions * stride;
    problem.out += positions * config.q_width();
  }
  return {};
}

bool supports_attention(const Context& context, const AttentionArgs& args) {
  return has_kernel(context, args.qkv.dtype(), kPickAttention);
}

Result<Tensor> run_attention(Context& context, const AttentionArgs& args) {
  BALLAST_TRY(Tensor out, make_output(context, args.config, args.qkv));
  if (out.count() == 0) return out;
  BALLAST_TRY(const Tensor qkv, product_operand(context, args.qkv));
  BALLAST_CHECK(with_type(out.dtype(), [&]<typename T>() { return attend<T>(context, args.config, qkv, out); }));
  return out;
}

bool supports_decode(const Context& context, const AttentionDecodeCacheArgs& args) {
  return has_kernel(context, args.qkv.dtype(), kPickAttention);
}

template <typename T>
void attend_cached(Context& context, const AttentionDecodeCacheArgs& args, Tensor& out) {
  KvCache& cache = args.cache;
  const T* const k = args.qkv.data<T>() + args.config.q_width();
  cache.write(args.layer, args.position, args.qkv.dims()[0], k, k + args.config.kv_width(), args.qkv.dims()[1]);
  auto problem = make_attention_problem<T>(args.config, args.qkv, out);
  problem.keys = cache.keys(args.layer);
  problem.values = cache.values(args.layer);
  problem.cache_dtype = cache.shape().dtype;
  problem.capacity = cache.rows(args.layer);
  problem.first_position = args.position - cache.first(args.layer);
  kernels<T>(context).attention(problem, context.threads());
}

Result<Tensor> run_decode(Context& context, const AttentionDecodeCacheArgs& args) {
  BALLAST_CHECK(args.cache.reserve(args.position + args.qkv.dims()[0]));
  BALLAST_TRY(Tensor out, make_output(context, args.config, args.qkv));
  if (out.count() == 0) return out;
  with_type(out.dtype(), [&]<typename T>() { attend_cached<T>(context, args, out); });
  return out;
}

}  // namespace

Status check_packed(const AttentionConfig& config, const Tensor& qkv) {
  BALLAST_CHECK(check_activation("qkv", qkv, 2));
  if (config.q_heads == 0 || config.kv_heads == 0 || config.head_dim == 0 || config.q_heads % config.kv_heads != 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: query heads must be a multiple of key heads, and none of them 0", config_text(config)));
  }
  if (config.window != 0 && !config.causal) return refused(config_text(config), "a window looks back: it is causal");
  if (!(config.soft_cap >= 0)) return refused(config_text(config), "a cap is above 0");
  const uint64_t width = config.q_width() + 2 * config.kv_width();
  if (config.sequences == 0 || qkv.dims()[0] % config.sequences != 0) {
    return does_not_fit(named("qkv", qkv), config_text(config),
                        "its rows must be a multiple of the sequences, which all have the same length");
  }
  if (qkv.dims()[1] == width) return {};
  return does_not_fit(named("qkv", qkv), config_text(config),
                      fmt::format("the last dimension of qkv must be {}", width));
}

Status AttentionArgs::check() const { return check_packed(config, qkv); }
std::string AttentionArgs::text() const { return fmt::format("{}, {}", typed(qkv), config_text(config)); }

Status AttentionDecodeCacheArgs::check_window() const {
  const uint64_t kept = cache.window(layer);
  if (kept != 0 && (config.window == 0 || config.window > kept)) {
    return does_not_fit(config_text(config),
                        fmt::format("layer {} of a cache that keeps {} positions of it", layer, kept),
                        "the window must not be larger");
  }
  if (cache.holds_past(layer, position)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("position {} sees back beyond what the cache holds of layer {}, which begins at {}",
                                position, layer, cache.first(layer)));
}

Status AttentionDecodeCacheArgs::check() const {
  BALLAST_CHECK(check_packed(config, qkv));
  if (config.sequences != 1 || !config.causal) {
    return refused(config_text(config), "with a past there is one sequence, and it is causal");
  }
  const KvCacheShape& shape = cache.shape();
  if (shape.kv_heads != config.kv_heads || shape.head_dim != config.head_dim) {
    return does_not_fit(config_text(config), fmt::format("a cache of {} heads of {}", shape.kv_heads, shape.head_dim),
                        "key heads and their size must be the same");
  }
  if ((shape.dtype == DType::kF64) != (qkv.dtype() == DType::kF64)) {
    return does_not_fit("qkv " + typed(qkv), fmt::format("a cache of {}", dtype_name(shape.dtype)),
                        "activations of f64 need a cache of f64, and f32 need one of f32 or f16");
  }
  if (layer >= shape.layers) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("layer {} is outside a cache of {} layers", layer, shape.layers));
  }
  if (position > cache.length()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("position {} would leave a hole: the cache holds {} positions", position, cache.length()));
  }
  BALLAST_CHECK(check_window());
  if (range_fits(position, qkv.dims()[0], shape.most_positions)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} positions after {} do not fit the model's context of {}", qkv.dims()[0], position,
                                shape.most_positions));
}
std::string AttentionDecodeCacheArgs::text() const {
  return fmt::format("{}, {}, past of {}", typed(qkv), config_text(config), dtype_name(cache.shape().dtype));
}

Result<Tensor> attention(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.registry().call(context, AttentionArgs{config, qkv});
}
Result<Tensor> attention_decode_cache(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                      KvCache& cache, uint64_t layer, uint64_t position) {
  return context.registry().call(context, AttentionDecodeCacheArgs{config, qkv, cache, layer, position});
}

void add_attention(Registry& registry) {
  add_builtin(registry, supports_attention, run_attention);
  add_builtin(registry, supports_decode, run_decode);
}

}  // namespace ballast::ops
