#include <algorithm>
#include <cmath>
#include <limits>

#include "ballast/backends/reference/gradients.h"

namespace ballast::reference {

namespace {

// One head of keys and values of one sequence, with the query heads that share it.
template <typename T>
class HeadGradient {
 public:
  HeadGradient(const AttentionGradient<T>& p, uint64_t sequence, uint64_t kv_head, T* weights)
      : p_(p),
        width_((p.q_heads + 2 * p.kv_heads) * p.head_dim),
        first_row_(sequence * p.length),
        kv_head_(kv_head),
        weights_(weights) {}

  void run() {
    const uint64_t group = p_.q_heads / p_.kv_heads;
    for (uint64_t i = 0; i < p_.length; ++i) {
      std::fill_n(p_.dqkv + key_at(i), p_.head_dim, T{0});
      std::fill_n(p_.dqkv + value_at(i), p_.head_dim, T{0});
    }
    for (uint64_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
      for (uint64_t query = 0; query < p_.length; ++query) add_query(head, query);
    }
  }

 private:
  uint64_t query_at(uint64_t head, uint64_t i) const { return (first_row_ + i) * width_ + head * p_.head_dim; }
  uint64_t key_at(uint64_t i) const { return query_at(p_.q_heads + kv_head_, i); }
  uint64_t value_at(uint64_t i) const { return query_at(p_.q_heads + p_.kv_heads + kv_head_, i); }

  static T dot(const T* a, const T* b, uint64_t count) {
    T sum = 0;
    for (uint64_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }

  T score(const T* q, uint64_t key) const {
    const T score = dot(q, p_.qkv + key_at(key), p_.head_dim) * p_.scale;
    return p_.soft_cap != 0 ? p_.soft_cap * std::tanh(score / p_.soft_cap) : score;
  }
  // Of the score in the product of q and k.
  T score_slope(const T* q, uint64_t key) const {
    if (p_.soft_cap == 0) return p_.scale;
    const T bent = score(q, key) / p_.soft_cap;
    return p_.scale * (1 - bent * bent);
  }

  // Softmax of the scores of one query, over the keys that it sees.
  void weigh(const T* q, uint64_t oldest, uint64_t seen) {
    T largest = -std::numeric_limits<T>::infinity();
    for (uint64_t i = oldest; i < seen; ++i) {
      weights_[i] = score(q, i);
      largest = std::max(largest, weights_[i]);
    }
    T sum = 0;
    for (uint64_t i = oldest; i < seen; ++i) sum += weights_[i] = std::exp(weights_[i] - largest);
    for (uint64_t i = oldest; i < seen; ++i) weights_[i] /= sum;
  }

  void add_query(uint64_t head, uint64_t query) {
    const uint64_t seen = p_.causal ? query + 1 : p_.length;
    const uint64_t oldest = p_.window != 0 && seen > p_.window ? seen - p_.window : 0;
    const uint64_t at = query_at(head, query);
    const T* q = p_.qkv + at;
    const uint64_t out_at = ((first_row_ + query) * p_.q_heads + head) * p_.head_dim;
    const T* dout = p_.dout + out_at;
    T* dq = p_.dqkv + at;
    weigh(q, oldest, seen);
    // The sum over keys of weight times its gradient is out . dout.
    const T level = dot(p_.out + out_at, dout, p_.head_dim);
    std::fill_n(dq, p_.head_dim, T{0});
    for (uint64_t i = oldest; i < seen; ++i) {
      const T* k = p_.qkv + key_at(i);
      T* dk = p_.dqkv + key_at(i);
      T* dv = p_.dqkv + value_at(i);
      const T dscore = weights_[i] * (dot(dout, p_.qkv + value_at(i), p_.head_dim) - level) * score_slope(q, i);
      for (uint64_t d = 0; d < p_.head_dim; ++d) {
        dq[d] += dscore * k[d];
        dk[d] += dscore * q[d];
        dv[d] += weights_[i] * dout[d];
      }
    }
  }

  const AttentionGradient<T>& p_;
  const uint64_t width_, first_row_, kv_head_;
  T* const weights_;  // [length]
};

}  // namespace

template <typename T>
void attention_gradient(const AttentionGradient<T>& p, T* scratch, ThreadPool& threads) {
  threads.for_ranges(p.sequences * p.kv_heads, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      HeadGradient<T>(p, i / p.kv_heads, i % p.kv_heads, scratch + i * p.length).run();
    }
  });
}

template <typename T>
uint64_t attention_gradient_scratch(const AttentionGradient<T>& p, unsigned) {
  return p.sequences * p.kv_heads * p.length;
}

template void attention_gradient(const AttentionGradient<float>&, float*, ThreadPool&);
template void attention_gradient(const AttentionGradient<double>&, double*, ThreadPool&);
template uint64_t attention_gradient_scratch(const AttentionGradient<float>&, unsigned);
template uint64_t attention_gradient_scratch(const AttentionGradient<double>&, unsigned);

}  // namespace ballast::reference
