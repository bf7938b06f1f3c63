// The gradient of attention over packed q, k and v. Weights are computed anew, for a block of queries and all keys that
// they see at once; nothing of length x length is kept.
//
// One head of keys and values of one sequence is one piece of work: its sums over queries, and over the heads that
// share it, run in one order.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_attention.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// Queries of a block: long sums, but weights that stay in the second-level cache.
size_t queries_at_once(size_t length) { return (length <= 512 ? 8 : 4) * kTileRows; }

// What one thread needs, in floats.
struct AttentionRoom {
  size_t keys;      // length, up to whole panels
  size_t channels;  // of a head, up to whole panels
  size_t queries;   // of a block

  size_t panels() const { return keys * channels; }
  size_t weights() const { return queries * keys; }
  size_t rows() const { return queries * channels; }
  // Keys and values as panels of keys, keys as panels of channels; weights and their gradients; q and dout of a block
  // as panels of channels.
  size_t floats() const { return 3 * panels() + 2 * weights() + 2 * rows(); }
};
AttentionRoom room_of(const AttentionGradient<float>& p) {
  return {divide_up(p.length, kPanel) * kPanel, divide_up(p.head_dim, kPanel) * kPanel,
          smaller(p.length, queries_at_once(p.length))};
}

uint64_t attention_scratch(const AttentionGradient<float>& p, unsigned threads) {
  return room_of(p).floats() * threads;
}

// A matrix in the packed input or output: rows are positions.
struct HeadRows {
  const float* data;
  size_t stride;
};

class HeadGradient {
 public:
  HeadGradient(const AttentionGradient<float>& problem, size_t sequence, size_t kv_head, float* scratch)
      : p_(problem), room_(room_of(problem)), kv_head_(kv_head) {
    stride_ = (p_.q_heads + 2 * p_.kv_heads) * p_.head_dim;
    out_stride_ = p_.q_heads * p_.head_dim;
    qkv_ = p_.qkv + sequence * p_.length * stride_;
    dqkv_ = p_.dqkv + sequence * p_.length * stride_;
    out_ = p_.out + sequence * p_.length * out_stride_;
    dout_ = p_.dout + sequence * p_.length * out_stride_;
    keys_across_ = scratch;
    values_across_ = keys_across_ + room_.panels();
    keys_ = values_across_ + room_.panels();
    weights_ = keys_ + room_.panels();
    slopes_ = weights_ + room_.weights();
    queries_ = slopes_ + room_.weights();
    douts_ = queries_ + room_.rows();
  }

  void run() {
    const size_t group = p_.q_heads / p_.kv_heads;
    const size_t k_begin = (p_.q_heads + kv_head_) * p_.head_dim;
    const size_t v_begin = k_begin + p_.kv_heads * p_.head_dim;
    pack_across(qkv_ + k_begin, keys_across_);
    pack_across(qkv_ + v_begin, values_across_);
    pack(qkv_ + k_begin, stride_, p_.length, keys_);
    for (size_t key = 0; key < p_.length; ++key) {
      std::memset(dqkv_ + key * stride_ + k_begin, 0, p_.head_dim * sizeof(float));
      std::memset(dqkv_ + key * stride_ + v_begin, 0, p_.head_dim * sizeof(float));
    }
    for (size_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
      for (size_t query = 0; query < p_.length; query += room_.queries) {
        first_ = query;
        count_ = smaller(room_.queries, p_.length - query);
        seen_ = p_.causal ? query + count_ : p_.length;
        block(head, dqkv_ + k_begin, dqkv_ + v_begin);
      }
    }
  }

 private:
  void block(size_t head, float* dk, float* dv) {
    const float* q = qkv_ + first_ * stride_ + head * p_.head_dim;
    const float* dout = dout_ + first_ * out_stride_ + head * p_.head_dim;
    multiply_across({q, stride_}, keys_across_, weights_);
    multiply_across({dout, out_stride_}, values_across_, slopes_);
    for (size_t row = 0; row < count_; ++row) weigh(row, head);
    pack(dout, out_stride_, count_, douts_);
    pack(q, stride_, count_, queries_);
    add_transposed(weights_, douts_, dv);
    add_transposed(slopes_, queries_, dk);
    multiply_slopes(dqkv_ + first_ * stride_ + head * p_.head_dim);
  }

  // [head_dim, keys] in panels of keys.
  void pack_across(const float* from, float* to) const {
    for (size_t key = 0; key < p_.length; key += kPanel, to += p_.head_dim * kPanel) {
      const WeightView w{reinterpret_cast<const std::byte*>(from + key * stride_), DType::kF32};
      pack_panel_across(w, stride_, p_.head_dim, smaller(kPanel, p_.length - key), to);
    }
  }
  // [rows, head_dim] in panels of channels.
  void pack(const float* from, size_t stride, size_t rows, float* to) const {
    for (size_t i = 0; i < p_.head_dim; i += kPanel, to += rows * kPanel) {
      const WeightView w{reinterpret_cast<const std::byte*>(from + i), DType::kF32};
      pack_panel(w, stride, rows, smaller(kPanel, p_.head_dim - i), to);
    }
  }

  // to[row][key] = rows . (keys or values)
  void multiply_across(HeadRows rows, const float* panels, float* to) const {
    const Tiles tiles{count_};
    for (size_t tile = 0; tile < tiles.tiles; ++tile) {
      const size_t row = tiles.begin(tile);
      MatrixProduct product{.a = rows.data + row * rows.stride, .row_stride = rows.stride};
      product.rows = tiles.begin(tile + 1) - row;
      product.length = p_.head_dim;
      product.c_stride = room_.keys;
      // Of a block on the diagonal only what these rows see.
      const size_t seen = p_.causal ? first_ + row + product.rows : p_.length;
      for (size_t key = 0; key < seen; key += kPanel) {
        product.w = panels + key * p_.head_dim;
        product.c = to + row * room_.keys + key;
        multiply_matrix(product);
      }
    }
  }

  // Scores become weights w, and their gradients g become w * (g - dout . out) * scale.
  void weigh(size_t row, size_t head) {
    const size_t visible = p_.causal ? first_ + row + 1 : p_.length;
    float* weights = weights_ + row * room_.keys;
    float* slopes = slopes_ + row * room_.keys;
    const size_t at = (first_ + row) * out_stride_ + head * p_.head_dim;
    const float mean = sum_vectors(p_.head_dim, [&](size_t i, size_t lanes) HWY_ATTR {
      return hn::Mul(load_some(out_ + at + i, lanes), load_some(dout_ + at + i, lanes));
    });
    const Vector scale = splat(p_.scale), below = splat(mean);
    const size_t oldest = p_.window != 0 && visible > p_.window ? visible - p_.window : 0;
    // What is beyond is 0 as far as products of whole tiles look.
    const size_t vectors = divide_up(visible, kLanes) * kLanes;
    const auto seen = [&](size_t i) HWY_ATTR {
      const auto past = hn::FirstN(Floats(), oldest > i ? oldest - i : 0);
      return hn::AndNot(past, hn::FirstN(Floats(), visible - i));
    };
    Vector most = splat(-__builtin_inff());
    for (size_t i = 0; i < vectors; i += kLanes) {
      Vector score = hn::Mul(load(weights + i), scale);
      if (p_.soft_cap != 0) {
        score = hn::Mul(Tanh()(hn::Div(score, splat(p_.soft_cap))), splat(p_.soft_cap));
        const Vector bent = hn::Div(score, splat(p_.soft_cap));
        store(hn::Mul(hn::Sub(load(slopes + i), below), hn::NegMulAdd(bent, bent, splat(1.0F))), slopes + i);
      } else {
        store(hn::Sub(load(slopes + i), below), slopes + i);
      }
      score = hn::IfThenElse(seen(i), score, splat(-__builtin_inff()));
      most = hn::Max(most, score);
      store(score, weights + i);
    }
    most = hn::MaxOfLanes(Floats(), most);
    Vector sum = zeros();
    for (size_t i = 0; i < vectors; i += kLanes) {
      const Vector weight = exponential(hn::Sub(load(weights + i), most));
      sum = hn::Add(sum, weight);
      store(weight, weights + i);
    }
    const Vector inverse = hn::Div(splat(1.0F), hn::SumOfLanes(Floats(), sum));
    for (size_t i = 0; i < vectors; i += kLanes) {
      const Vector weight = hn::Mul(load(weights + i), inverse);
      const Vector slope = hn::Mul(hn::Mul(weight, load(slopes + i)), scale);
      store(weight, weights + i);
      store(hn::IfThenElseZero(seen(i), slope), slopes + i);
    }
    for (size_t i = vectors; i < smaller(room_.keys, visible + kTileRows); i += kLanes) {
      store(zeros(), weights + i);
      store(zeros(), slopes + i);
    }
  }

  // to[key] += sum over the queries of the block of from[query][key] * rows[query]
  void add_transposed(const float* from, const float* panels, float* to) const {
    const Tiles tiles{seen_};
    for (size_t tile = 0; tile < tiles.tiles; ++tile) {
      const size_t key = tiles.begin(tile);
      // Queries before the key do not see it.
      const size_t blind = p_.causal && key > first_ ? key - first_ : 0;
      MatrixProduct product{.a = from + blind * room_.keys + key, .row_stride = 1, .term_stride = room_.keys};
      product.rows = tiles.begin(tile + 1) - key;
      product.length = count_ - blind;
      product.c_stride = stride_;
      product.add = true;
      for (size_t i = 0; i < p_.head_dim; i += kPanel) {
        product.w = panels + i * count_ + blind * kPanel;
        product.c = to + key * stride_ + i;
        product.columns = smaller(kPanel, p_.head_dim - i);
        multiply_matrix(product);
      }
    }
  }

  // dq = slopes * keys
  void multiply_slopes(float* dq) const {
    const Tiles tiles{count_};
    for (size_t tile = 0; tile < tiles.tiles; ++tile) {
      const size_t row = tiles.begin(tile);
      MatrixProduct product{.a = slopes_ + row * room_.keys, .row_stride = room_.keys};
      product.rows = tiles.begin(tile + 1) - row;
      product.length = p_.causal ? first_ + row + product.rows : p_.length;
      product.c_stride = stride_;
      for (size_t i = 0; i < p_.head_dim; i += kPanel) {
        product.w = keys_ + i * p_.length;
        product.c = dq + row * stride_ + i;
        product.columns = smaller(kPanel, p_.head_dim - i);
        multiply_matrix(product);
      }
    }
  }

  const AttentionGradient<float>& p_;
  const AttentionRoom room_;
  const size_t kv_head_;
  size_t stride_, out_stride_;  // from position to position
  const float* qkv_;
  const float* out_;
  const float* dout_;
  float* dqkv_;
  // Scratch.
  float* keys_across_;
  float* values_across_;
  float* keys_;
  float* weights_;
  float* slopes_;
  float* queries_;
  float* douts_;
  // The block.
  size_t first_ = 0, count_ = 0, seen_ = 0;
};

void attention(const AttentionGradient<float>& p, float* scratch, ThreadPool& pool) {
  if (p.length == 0 || p.head_dim == 0 || p.kv_heads == 0) return;
  const size_t pieces = p.sequences * p.kv_heads;
  const size_t workers = smaller(pieces, pool.size());
  const size_t room = room_of(p).floats();
  size_t next = 0;
  pool.for_ranges(workers, 1, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t worker = begin; worker < end; ++worker) {
      for (;;) {
        const size_t piece = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (piece >= pieces) break;
        HeadGradient(p, piece / p.kv_heads, piece % p.kv_heads, scratch + worker * room).run();
      }
    }
  });
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(attention);
HWY_EXPORT(attention_scratch);

void attention(const AttentionGradient<float>& problem, float* scratch, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(attention)(problem, scratch, pool);
}
uint64_t attention_scratch(const AttentionGradient<float>& problem, unsigned threads) {
  return HWY_DYNAMIC_DISPATCH(attention_scratch)(problem, threads);
}

}  // namespace ballast::cpu::gradients
#endif
