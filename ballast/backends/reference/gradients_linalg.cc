#include "ballast/backends/reference/gradients.h"

namespace ballast::reference {

template <typename T>
void transposed_product(const TransposedProduct<T>& p, T*, ThreadPool& threads) {
  threads.for_ranges(p.k, 1, [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      for (uint64_t j = 0; j < p.n; ++j) {
        T sum = 0;
        for (uint64_t i = 0; i < p.m; ++i) sum += p.a[i * p.k + k] * p.b[i * p.n + j];
        T& c = p.c[k * p.n + j];
        c = p.add ? c + sum : sum;
      }
    }
  });
}

template <typename T>
uint64_t transposed_product_scratch(const TransposedProduct<T>&) {
  return 0;
}

template <typename T>
void column_sums(const T* x, T* y, uint64_t rows, uint64_t features, bool add, ThreadPool& threads) {
  threads.for_ranges(features, 1, [=](size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) {
      T sum = 0;
      for (uint64_t i = 0; i < rows; ++i) sum += x[i * features + j];
      y[j] = add ? y[j] + sum : sum;
    }
  });
}

template <typename T>
double square_sum(const T* x, uint64_t count, ThreadPool&) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// Rows of the table may come more than once: threads share columns, not rows.
template <typename T>
void scatter_rows(const uint32_t* indices, const T* rows, T* table, uint64_t count, uint64_t features,
                  ThreadPool& threads) {
  threads.for_ranges(features, 1, [=](size_t begin, size_t end) {
    for (uint64_t i = 0; i < count; ++i) {
      for (size_t j = begin; j < end; ++j) table[indices[i] * features + j] += rows[i * features + j];
    }
  });
}

#define INSTANTIATE(T)                                                            \
  template void transposed_product(const TransposedProduct<T>&, T*, ThreadPool&); \
  template uint64_t transposed_product_scratch(const TransposedProduct<T>&);      \
  template void column_sums(const T*, T*, uint64_t, uint64_t, bool, ThreadPool&); \
  template double square_sum(const T*, uint64_t, ThreadPool&);                    \
  template void scatter_rows(const uint32_t*, const T*, T*, uint64_t, uint64_t, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
