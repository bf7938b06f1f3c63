#include "ballast/ops/attention.h"

#include <cstring>
#include <new>
#include <type_traits>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/rounding.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/tensor/element.h"

namespace ballast::host {

namespace {

constexpr auto kPickAttention = [](const auto& table) { return table.attention; };

Result<Tensor> make_output(Context& context, const AttentionConfig& config, const Tensor& qkv) {
  return context.workspace().make({qkv.dims()[0], config.q_width()}, qkv.dtype());
}

// Everything but where keys and values lie.
template <typename T>
AttentionProblem<T> make_attention_problem(const AttentionConfig& config, const Tensor& qkv, Tensor& out) {
  AttentionProblem<T> problem{};
  problem.q = host_data<const T>(qkv);
  problem.out = host_data<T>(out);
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
  T* const keys = host_data<T>(heads);
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
    kernels<T>(context).attention(std::span(&problem, 1), context.threads());
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

template <typename T>
void store_row(DType dtype, const T* from, std::byte* to, uint64_t count) {
  if (dtype == DType::kF16) {
    for (uint64_t i = 0; i < count; ++i) store_le<uint16_t>(to + 2 * i, F16::encode(from[i]));
  } else if (dtype == kDTypeOf<T>) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (dtype == DType::kF32) {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<float*>(to)[i] = static_cast<float>(from[i]);
  } else {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<double*>(to)[i] = static_cast<double>(from[i]);
  }
}

// The keys and values of the packed rows of a part, where their positions lie in its pages.
template <typename T>
void store_past(const AttentionDecodeCacheArgs& args, const KvRows& part, const T* qkv) {
  const AttentionConfig& config = args.config;
  const KvLayout& layout = args.layout();
  const DType dtype = layout.shape().dtype;
  for (uint64_t i = 0; i < part.rows; ++i, qkv += args.qkv.dims()[1]) {
    const uint64_t position = part.position + i;
    std::byte* const page = args.pages(part)[position / kPagePositions]->host_address();
    for (uint64_t head = 0; head < config.kv_heads; ++head) {
      const T* const key = qkv + config.q_width() + head * config.head_dim;
      std::byte* const to = page + (head * kPagePositions + position % kPagePositions) * layout.row_bytes();
      store_row(dtype, key, to + layout.keys_offset(args.layer), config.head_dim);
      store_row(dtype, key + config.kv_width(), to + layout.values_offset(args.layer), config.head_dim);
    }
  }
}

bool supports_decode(const Context& context, const AttentionDecodeCacheArgs& args) {
  return has_kernel(context, args.qkv.dtype(), kPickAttention);
}

// One for each part, in the workspace's memory, which the next layer gets again.
template <typename T>
Result<Tensor> make_problems(Context& context, size_t parts) {
  static_assert(std::is_trivially_copyable_v<AttentionProblem<T>>);
  return context.workspace().make({parts * sizeof(AttentionProblem<T>)}, DType::kU8);
}

template <typename T>
Status attend_parts(Context& context, const AttentionDecodeCacheArgs& args, Tensor& out) {
  const KvLayout& layout = args.layout();
  auto problem = make_attention_problem<T>(args.config, args.qkv, out);
  problem.keys_offset = layout.keys_offset(args.layer);
  problem.values_offset = layout.values_offset(args.layer);
  problem.cache_dtype = layout.shape().dtype;
  problem.capacity = kPagePositions;
  BALLAST_TRY(Tensor memory, make_problems<T>(context, args.parts.size()));
  auto* const problems = host_data<AttentionProblem<T>>(memory);
  size_t count = 0;
  for (const KvRows& part : args.parts) {
    store_past(args, part, problem.q);
    problem.pages = args.pages(part).data();
    problem.q_count = part.rows;
    problem.first_position = part.position;
    new (problems + count++) AttentionProblem<T>(problem);
    problem.q += part.rows * problem.q_stride;
    problem.out += part.rows * args.config.q_width();
  }
  kernels<T>(context).attention({problems, count}, context.threads());
  return {};
}

Result<Tensor> run_decode(Context& context, const AttentionDecodeCacheArgs& args) {
  BALLAST_TRY(Tensor out, make_output(context, args.config, args.qkv));
  if (out.count() == 0) return out;
  BALLAST_CHECK(with_type(out.dtype(), [&]<typename T>() { return attend_parts<T>(context, args, out); }));
  return out;
}

template <typename T>
Status attend_back(Context& context, const AttentionGradientArgs& args, const Tensor& qkv, const Tensor& dout) {
  BALLAST_TRY(const auto* table, gradients_with<T>(context, &GradientKernels<T>::attention, "gradients of attention"));
  const AttentionConfig& config = args.config;
  AttentionGradient<T> problem{};
  problem.qkv = host_data<const T>(qkv);
  problem.out = host_data<const T>(args.y);
  problem.dout = host_data<const T>(dout);
  problem.dqkv = host_data<T>(args.dqkv);
  problem.sequences = config.sequences;
  problem.length = qkv.dims()[0] / config.sequences;
  problem.q_heads = config.q_heads;
  problem.kv_heads = config.kv_heads;
  problem.head_dim = config.head_dim;
  problem.causal = config.causal;
  problem.scale = score_scale<T>(config);
  problem.window = config.window;
  problem.soft_cap = static_cast<T>(config.soft_cap);
  const auto scratch_size = kernels<T>(context).gradients.attention_scratch;
  const uint64_t elements = scratch_size != nullptr ? scratch_size(problem, context.threads().size()) : 0;
  BALLAST_TRY(Tensor scratch, context.workspace().make({elements}, kDTypeOf<T>));
  table->attention(problem, host_data<T>(scratch), context.threads());
  return {};
}

Status run_attention_gradient(Context& context, const AttentionGradientArgs& args) {
  if (args.dqkv.count() == 0) return {};
  BALLAST_TRY(const Tensor qkv, product_operand(context, args.qkv));
  BALLAST_TRY(const Tensor dout, product_operand(context, args.dy));
  return with_type(qkv.dtype(), [&]<typename T>() { return attend_back<T>(context, args, qkv, dout); });
}

}  // namespace

void add_attention(Registry& registry) {
  registry.add_builtin(supports_attention, run_attention);
  registry.add_builtin(supports_decode, run_decode);
  registry.add_builtin<AttentionDecodeTurnedArgs>(nullptr, run_by_parts<AttentionDecodeTurnedArgs>);
  registry.add_routine(run_attention_gradient);
}

}  // namespace ballast::host
