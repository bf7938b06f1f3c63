#include "ballast/backends/reference/kernels.h"

namespace ballast::reference {

template <typename T>
void rope(const RopeProblem<T>& p, ThreadPool& threads) {
  const uint64_t half = p.rotary_dim / 2;
  threads.for_ranges(p.positions, 1, [&, half](size_t begin, size_t end) {
    for (size_t position = begin; position < end; ++position) {
      for (uint64_t head = 0; head < p.heads; ++head) {
        T* channels = p.x + position * p.stride + head * p.head_dim;
        for (uint64_t i = 0; i < half; ++i) {
          const T cosine = p.cosines[position * half + i];
          const T sine = p.sines[position * half + i];
          T& a = channels[p.interleaved ? 2 * i : i];
          T& b = channels[p.interleaved ? 2 * i + 1 : i + half];
          const T turned = a * cosine - b * sine;
          b = b * cosine + a * sine;
          a = turned;
        }
      }
    }
  });
}

template void rope(const RopeProblem<float>&, ThreadPool&);
template void rope(const RopeProblem<double>&, ThreadPool&);

}  // namespace ballast::reference
