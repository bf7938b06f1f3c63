#include "ballast/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/tensor/element.h"

namespace ballast::reference {

namespace {

// The keys that a query sees: [oldest, end) of those there are.
struct Seen {
  uint64_t oldest, end;

  Seen(const AttentionConfig& config, uint64_t position, uint64_t positions)
      : oldest(0), end(config.causal ? position + 1 : positions) {
    if (config.window != 0 && end > config.window) oldest = end - config.window;
  }
};

template <typename T>
T score_of(const AttentionConfig& config, T product) {
  const auto cap = static_cast<T>(config.soft_cap);
  const T score = product * score_scale<T>(config);
  return cap != 0 ? cap * std::tanh(score / cap) : score;
}

// softmax(q k) v of one query of one head; key(i, d) and value(i, d) are those of its head. Softmax needs its largest
// score first, so each score is computed twice: that needs no memory.
template <typename T, typename Key, typename Value>
void attend(const AttentionConfig& config, const T* q, const Seen& seen, const Key& key, const Value& value, T* out) {
  const uint64_t size = config.head_dim;
  const auto score = [&](uint64_t i) {
    T sum = 0;
    for (uint64_t d = 0; d < size; ++d) sum += q[d] * key(i, d);
    return score_of(config, sum);
  };
  T largest = -std::numeric_limits<T>::infinity();
  for (uint64_t i = seen.oldest; i < seen.end; ++i) largest = std::max(largest, score(i));
  T sum = 0;
  std::fill_n(out, size, T{0});
  for (uint64_t i = seen.oldest; i < seen.end; ++i) {
    const T weight = std::exp(score(i) - largest);
    sum += weight;
    for (uint64_t d = 0; d < size; ++d) out[d] += weight * value(i, d);
  }
  for (uint64_t d = 0; d < size; ++d) out[d] /= sum;
}

uint64_t kv_head_of(const AttentionConfig& config, uint64_t q_head) {
  return q_head / (config.q_heads / config.kv_heads);
}

Result<Tensor> run_attention(Context& context, const AttentionArgs& args) {
  const AttentionConfig& config = args.config;
  const uint64_t rows = args.qkv.dims()[0], width = args.qkv.dims()[1];
  BALLAST_TRY(Tensor out, context.workspace().make({rows, config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  BALLAST_TRY(const Tensor qkv, operand(context, args.qkv));
  const uint64_t length = rows / config.sequences;
  with_type(out.dtype(), [&]<typename T>() {
    each(context, rows * config.q_heads, [&](size_t i) {
      const uint64_t row = i / config.q_heads, head = i % config.q_heads;
      const T* first = host_data<const T>(qkv) + row / length * length * width;  // of the sequence
      const T* keys = first + config.q_width() + kv_head_of(config, head) * config.head_dim;
      const T* values = keys + config.kv_width();
      attend(
          config, host_data<const T>(qkv) + row * width + head * config.head_dim, Seen(config, row % length, length),
          [&](uint64_t at, uint64_t d) { return keys[at * width + d]; },
          [&](uint64_t at, uint64_t d) { return values[at * width + d]; }, host_data<T>(out) + i * config.head_dim);
    });
  });
  return out;
}

// ---------------------------------------------------------------- with a past

// One layer of the past of one sequence.
struct PastLayer {
  std::span<const KvPage> pages;
  uint64_t keys_offset, values_offset, head_dim;

  PastLayer(const AttentionDecodeCacheArgs& args, const KvRows& part)
      : pages(args.pages(part)),
        keys_offset(args.layout().keys_offset(args.layer)),
        values_offset(args.layout().values_offset(args.layer)),
        head_dim(args.config.head_dim) {}

  std::byte* keys(uint64_t position) const { return pages[position / kPagePositions]->host_address() + keys_offset; }
  std::byte* values(uint64_t position) const {
    return pages[position / kPagePositions]->host_address() + values_offset;
  }
  // Among the keys, or the values, of the page.
  uint64_t element(uint64_t head, uint64_t position, uint64_t d) const {
    return (head * kPagePositions + position % kPagePositions) * head_dim + d;
  }
};

template <typename T>
void store_element(DType dtype, T value, std::byte* to, uint64_t at) {
  switch (dtype) {
    case DType::kF16: store_le<uint16_t>(to + 2 * at, F16::encode(value)); break;
    case DType::kF64: reinterpret_cast<double*>(to)[at] = static_cast<double>(value); break;
    default: reinterpret_cast<float*>(to)[at] = static_cast<float>(value);
  }
}

// Of `rows` packed rows that begin at `qkv`.
template <typename T>
void store_past(const AttentionDecodeCacheArgs& args, const KvRows& part, const PastLayer& layer, const T* qkv) {
  const AttentionConfig& config = args.config;
  const DType dtype = args.layout().shape().dtype;
  for (uint64_t i = 0; i < part.rows; ++i, qkv += args.qkv.dims()[1]) {
    const uint64_t position = part.position + i;
    for (uint64_t head = 0; head < config.kv_heads; ++head) {
      const T* key = qkv + config.q_width() + head * config.head_dim;
      const T* value = key + config.kv_width();
      for (uint64_t d = 0; d < config.head_dim; ++d) {
        const uint64_t at = layer.element(head, position, d);
        store_element(dtype, key[d], layer.keys(position), at);
        store_element(dtype, value[d], layer.values(position), at);
      }
    }
  }
}

template <typename T>
void attend_past(Context& context, const AttentionDecodeCacheArgs& args, const KvRows& part, const PastLayer& layer,
                 const T* qkv, T* out) {
  const AttentionConfig& config = args.config;
  const uint64_t width = args.qkv.dims()[1];
  visit_element(args.layout().shape().dtype, [&]<typename E>() {
    const auto at = [](const std::byte* data, uint64_t i) { return static_cast<T>(E::decode(load_bits<E>(data, i))); };
    each(context, part.rows * config.q_heads, [&](size_t i) {
      const uint64_t row = i / config.q_heads, head = i % config.q_heads, kv_head = kv_head_of(config, head);
      attend(
          config, qkv + row * width + head * config.head_dim, Seen(config, part.position + row, 0),
          [&](uint64_t position, uint64_t d) { return at(layer.keys(position), layer.element(kv_head, position, d)); },
          [&](uint64_t position, uint64_t d) {
            return at(layer.values(position), layer.element(kv_head, position, d));
          },
          out + i * config.head_dim);
    });
  });
}

Result<Tensor> run_decode(Context& context, const AttentionDecodeCacheArgs& args) {
  BALLAST_TRY(Tensor out, context.workspace().make({args.qkv.dims()[0], args.config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  with_type(out.dtype(), [&]<typename T>() {
    const T* qkv = host_data<const T>(args.qkv);
    T* to = host_data<T>(out);
    for (const KvRows& part : args.parts) {
      const PastLayer layer(args, part);
      store_past(args, part, layer, qkv);
      attend_past(context, args, part, layer, qkv, to);
      qkv += part.rows * args.qkv.dims()[1];
      to += part.rows * args.config.q_width();
    }
  });
  return out;
}

// ---------------------------------------------------------------- the way back

// One head of keys and values of one sequence, with the query heads that share it.
template <typename T>
class HeadGradient {
 public:
  HeadGradient(const AttentionGradientArgs& args, const Tensor& qkv, const Tensor& dout, uint64_t sequence,
               uint64_t kv_head, T* weights)
      : config_(args.config),
        qkv_(host_data<const T>(qkv)),
        out_(host_data<const T>(args.y)),
        dout_(host_data<const T>(dout)),
        dqkv_(host_data<T>(args.dqkv)),
        width_(qkv.dims()[1]),
        length_(qkv.dims()[0] / args.config.sequences),
        first_row_(sequence * length_),
        kv_head_(kv_head),
        weights_(weights) {}

  void run() {
    const uint64_t group = config_.q_heads / config_.kv_heads;
    for (uint64_t i = 0; i < length_; ++i) {
      std::fill_n(dqkv_ + key_at(i), config_.head_dim, T{0});
      std::fill_n(dqkv_ + value_at(i), config_.head_dim, T{0});
    }
    for (uint64_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
      for (uint64_t query = 0; query < length_; ++query) add_query(head, query);
    }
  }

 private:
  uint64_t query_at(uint64_t head, uint64_t i) const { return (first_row_ + i) * width_ + head * config_.head_dim; }
  uint64_t key_at(uint64_t i) const { return query_at(config_.q_heads + kv_head_, i); }
  uint64_t value_at(uint64_t i) const { return query_at(config_.q_heads + config_.kv_heads + kv_head_, i); }

  T dot(const T* a, const T* b) const {
    T sum = 0;
    for (uint64_t i = 0; i < config_.head_dim; ++i) sum += a[i] * b[i];
    return sum;
  }

  T score(const T* q, uint64_t key) const { return score_of(config_, dot(q, qkv_ + key_at(key))); }
  // Of the score in the product of q and k.
  T score_slope(const T* q, uint64_t key) const {
    if (config_.soft_cap == 0) return score_scale<T>(config_);
    const T bent = score(q, key) / static_cast<T>(config_.soft_cap);
    return score_scale<T>(config_) * (1 - bent * bent);
  }

  // Softmax of the scores of one query, over the keys that it sees.
  void weigh(const T* q, const Seen& seen) {
    T largest = -std::numeric_limits<T>::infinity();
    for (uint64_t i = seen.oldest; i < seen.end; ++i) largest = std::max(largest, weights_[i] = score(q, i));
    T sum = 0;
    for (uint64_t i = seen.oldest; i < seen.end; ++i) sum += weights_[i] = std::exp(weights_[i] - largest);
    for (uint64_t i = seen.oldest; i < seen.end; ++i) weights_[i] /= sum;
  }

  void add_query(uint64_t head, uint64_t query) {
    const Seen seen(config_, query, length_);
    const uint64_t at = query_at(head, query);
    const T* q = qkv_ + at;
    const uint64_t out_at = ((first_row_ + query) * config_.q_heads + head) * config_.head_dim;
    const T* dout = dout_ + out_at;
    T* dq = dqkv_ + at;
    weigh(q, seen);
    // The sum over keys of weight times its gradient is out . dout.
    const T level = dot(out_ + out_at, dout);
    std::fill_n(dq, config_.head_dim, T{0});
    for (uint64_t i = seen.oldest; i < seen.end; ++i) {
      const T* k = qkv_ + key_at(i);
      T* dk = dqkv_ + key_at(i);
      T* dv = dqkv_ + value_at(i);
      const T dscore = weights_[i] * (dot(dout, qkv_ + value_at(i)) - level) * score_slope(q, i);
      for (uint64_t d = 0; d < config_.head_dim; ++d) {
        dq[d] += dscore * k[d];
        dk[d] += dscore * q[d];
        dv[d] += weights_[i] * dout[d];
      }
    }
  }

  const AttentionConfig& config_;
  const T* const qkv_;
  const T* const out_;
  const T* const dout_;
  T* const dqkv_;
  const uint64_t width_, length_, first_row_, kv_head_;
  T* const weights_;  // [length]
};

Status run_attention_gradient(Context& context, const AttentionGradientArgs& args) {
  if (args.dqkv.count() == 0) return {};
  BALLAST_TRY(const Tensor qkv, operand(context, args.qkv));
  BALLAST_TRY(const Tensor dout, operand(context, args.dy));
  const AttentionConfig& config = args.config;
  const uint64_t length = qkv.dims()[0] / config.sequences;
  const uint64_t heads = config.sequences * config.kv_heads;
  BALLAST_TRY(Tensor weights, context.workspace().make({heads, length}, qkv.dtype()));
  with_type(qkv.dtype(), [&]<typename T>() {
    each(context, heads, [&](size_t i) {
      HeadGradient<T>(args, qkv, dout, i / config.kv_heads, i % config.kv_heads, host_data<T>(weights) + i * length)
          .run();
    });
  });
  return {};
}

}  // namespace

void add_attention(Registry& registry) {
  registry.add_builtin<AttentionArgs>(nullptr, run_attention);
  registry.add_builtin<AttentionDecodeCacheArgs>(nullptr, run_decode);
  registry.add_builtin<AttentionDecodeTurnedArgs>(nullptr, run_by_parts<AttentionDecodeTurnedArgs>);
  registry.add_routine(run_attention_gradient);
}

}  // namespace ballast::reference
