#include <algorithm>
#include <cmath>

#include "ballast/backends/reference/gradients.h"

namespace ballast::reference {

namespace {

template <typename T>
struct RowSum {
  T largest, sum;  // of exp(z - largest)
};

template <typename T>
RowSum<T> sum_row(const CrossEntropyProblem<T>& p, uint64_t row) {
  const T* z = p.logits + row * p.classes;
  const T largest = *std::max_element(z, z + p.classes);
  T sum = 0;
  for (uint64_t c = 0; c < p.classes; ++c) sum += std::exp(z[c] - largest);
  return {largest, sum};
}

template <typename T>
bool is_ignored(const CrossEntropyProblem<T>& p, uint64_t row) {
  return p.labels != nullptr && p.labels[row] == p.ignored;
}

template <typename T>
T target(const CrossEntropyProblem<T>& p, uint64_t row, uint64_t c) {
  if (p.labels != nullptr) return p.labels[row] == c ? T{1} : T{0};
  return p.targets[row * p.classes + c];
}

template <typename T>
T loss_of(const CrossEntropyProblem<T>& p, uint64_t row) {
  if (is_ignored(p, row)) return 0;
  const auto [largest, sum] = sum_row(p, row);
  const T* z = p.logits + row * p.classes;
  const T level = std::log(sum);
  if (p.labels != nullptr) return level - (z[p.labels[row]] - largest);
  T loss = 0;
  for (uint64_t c = 0; c < p.classes; ++c) loss += target(p, row, c) * (level - (z[c] - largest));
  return loss;
}

template <typename T>
void entropy_row_gradient(const CrossEntropyProblem<T>& p, uint64_t row, T scale, T* dz) {
  if (is_ignored(p, row)) {
    std::fill_n(dz, p.classes, T{0});
    return;
  }
  const auto [largest, sum] = sum_row(p, row);
  T mass = 0;
  for (uint64_t c = 0; c < p.classes; ++c) mass += target(p, row, c);
  for (uint64_t c = 0; c < p.classes; ++c) {
    dz[c] = scale * (std::exp(p.logits[row * p.classes + c] - largest) / sum * mass - target(p, row, c));
  }
}

}  // namespace

template <typename T>
void cross_entropy(const CrossEntropyProblem<T>& p, ThreadPool& threads) {
  threads.for_ranges(p.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) p.losses[row] = loss_of(p, row);
  });
}

template <typename T>
void cross_entropy_gradient(const CrossEntropyProblem<T>& p, T scale, T* dlogits, ThreadPool& threads) {
  threads.for_ranges(p.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) entropy_row_gradient(p, row, scale, dlogits + row * p.classes);
  });
}

#define INSTANTIATE(T)                                                     \
  template void cross_entropy(const CrossEntropyProblem<T>&, ThreadPool&); \
  template void cross_entropy_gradient(const CrossEntropyProblem<T>&, T, T*, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
