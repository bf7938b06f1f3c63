#include <algorithm>
#include <cmath>
#include <limits>

#include "ballast/backends/reference/kernels.h"
#include "ballast/backends/reference/weight.h"

namespace ballast::reference {

namespace {

// One query of one head. Softmax needs its largest score first, so each score is computed twice: that needs no memory.
// Keys of the future are not looked at, which is what a mask of -1e9 amounts to.
template <typename T, typename At>
void attend(const AttentionProblem<T>& p, const At& keys, const At& values, uint64_t query, uint64_t head) {
  const uint64_t first = head / (p.q_heads / p.kv_heads) * p.capacity * p.head_dim;
  const uint64_t seen = p.first_position + (p.sees_all ? p.q_count : query + 1);
  const uint64_t oldest = p.window != 0 && seen > p.window ? seen - p.window : 0;
  const T* q = p.q + query * p.q_stride + head * p.head_dim;
  T* out = p.out + (query * p.q_heads + head) * p.head_dim;
  const auto score = [&](uint64_t position) {
    T sum = 0;
    for (uint64_t d = 0; d < p.head_dim; ++d) sum += q[d] * keys(first + position * p.head_dim + d);
    return p.soft_cap != 0 ? p.soft_cap * std::tanh(sum * p.scale / p.soft_cap) : sum * p.scale;
  };
  T largest = -std::numeric_limits<T>::infinity();
  for (uint64_t i = oldest; i < seen; ++i) largest = std::max(largest, score(i));
  T sum = 0;
  std::fill_n(out, p.head_dim, T{0});
  for (uint64_t i = oldest; i < seen; ++i) {
    const T weight = std::exp(score(i) - largest);
    sum += weight;
    for (uint64_t d = 0; d < p.head_dim; ++d) out[d] += weight * values(first + i * p.head_dim + d);
  }
  for (uint64_t d = 0; d < p.head_dim; ++d) out[d] /= sum;
}

}  // namespace

template <typename T>
void attention(const AttentionProblem<T>& p, ThreadPool& threads) {
  visit_element(p.cache_dtype, [&]<typename E>() {
    const auto elements = [](const std::byte* data) {
      return [data](uint64_t i) { return static_cast<T>(E::decode(load_bits<E>(data, i))); };
    };
    threads.for_ranges(p.q_count * p.q_heads, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        attend(p, elements(p.keys), elements(p.values), i / p.q_heads, i % p.q_heads);
      }
    });
  });
}

template void attention(const AttentionProblem<float>&, ThreadPool&);
template void attention(const AttentionProblem<double>&, ThreadPool&);

}  // namespace ballast::reference
