#include <vector>

#include "ballast/backends/reference/kernels.h"
#include "ballast/backends/reference/weight.h"

namespace ballast::reference {

namespace {

// Columns per piece of work: a cache line of the result.
constexpr size_t kLinalgGrain = 16;

template <typename T>
void finish(const GemmTile<T>& tile, uint64_t i, uint64_t j) {
  T& c = tile.c[i * tile.c_stride + j];
  if (tile.bias != nullptr) c += tile.bias[j];
  c = activated(tile.activation, c);
  if (tile.residual != nullptr) c += tile.residual[i * tile.c_stride + j];
}

// W is [K, N]: columns [begin, end) of C, over the terms of this tile.
template <typename T, typename At>
void add_terms(const GemmTile<T>& tile, const At& weight, uint64_t begin, uint64_t end) {
  for (uint64_t i = 0; i < tile.m; ++i) {
    T* c = tile.c + i * tile.c_stride;
    for (uint64_t j = begin; tile.first && j < end; ++j) c[j] = 0;
    for (uint64_t k = 0; k < tile.count; ++k) {
      const T a = tile.a[i * tile.a_stride + tile.begin + k];
      for (uint64_t j = begin; j < end; ++j) c[j] += a * weight(k * tile.n + j);
    }
    for (uint64_t j = begin; tile.last && j < end; ++j) finish(tile, i, j);
  }
}

// W is [N, K]: columns [begin, end) of those in this tile, complete.
template <typename T, typename At>
void add_outputs(const GemmTile<T>& tile, const At& weight, uint64_t begin, uint64_t end) {
  for (uint64_t i = 0; i < tile.m; ++i) {
    const T* a = tile.a + i * tile.a_stride;
    for (uint64_t j = begin; j < end; ++j) {
      T sum = 0;
      for (uint64_t k = 0; k < tile.k; ++k) sum += a[k] * weight(j * tile.k + k);
      tile.c[i * tile.c_stride + tile.begin + j] = sum;
      finish(tile, i, tile.begin + j);
    }
  }
}

// The same for a weight in blocks, a row of which becomes plain numbers for a moment.
template <typename T>
void add_outputs_of_blocks(GemmTile<T> tile, uint64_t begin, uint64_t end) {
  std::vector<T> row(tile.k);
  const uint64_t first = tile.begin;
  for (uint64_t j = begin; j < end; ++j) {
    const uint64_t bytes = bytes_of_blocks(tile.w.dtype, tile.k);
    widen<T>(WeightView{tile.w.data + j * bytes, tile.w.dtype}, row.data(), tile.k);
    tile.begin = first + j;
    add_outputs(
        tile, [&](uint64_t k) { return row[k]; }, 0, 1);
  }
}

}  // namespace

template <typename T>
void gemm(const GemmTile<T>& tile, ThreadPool& threads) {
  const bool of_outputs = tile.layout == WeightLayout::kOutIn;
  if (is_block(tile.w.dtype)) {
    threads.for_ranges(tile.count, kLinalgGrain,
                       [&](size_t begin, size_t end) { add_outputs_of_blocks(tile, begin, end); });
    return;
  }
  with_elements<T>(tile.w, [&](const auto& weight) {
    threads.for_ranges(of_outputs ? tile.count : tile.n, kLinalgGrain, [&](size_t begin, size_t end) {
      if (of_outputs) add_outputs(tile, weight, begin, end);
      else add_terms(tile, weight, begin, end);
    });
  });
}

template <typename T>
void batched_matmul(const BatchedMatmul<T>& p, ThreadPool& threads) {
  threads.for_ranges(p.batch * p.m, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* a = p.a + row * p.k;
      const T* b = p.b + row / p.m * p.k * p.n;
      T* c = p.c + row * p.n;
      for (uint64_t j = 0; j < p.n; ++j) c[j] = 0;
      for (uint64_t k = 0; k < p.k; ++k) {
        for (uint64_t j = 0; j < p.n; ++j) c[j] += a[k] * b[k * p.n + j];
      }
    }
  });
}

template void gemm(const GemmTile<float>&, ThreadPool&);
template void gemm(const GemmTile<double>&, ThreadPool&);
template void batched_matmul(const BatchedMatmul<float>&, ThreadPool&);
template void batched_matmul(const BatchedMatmul<double>&, ThreadPool&);

}  // namespace ballast::reference
