#include "ballast/backends/reference/kernels.h"
#include "ballast/backends/reference/weight.h"

namespace ballast::reference {

template <typename T>
void widen(const WeightView& weight, T* out, uint64_t count) {
  with_elements<T>(weight, [=](const auto& at) {
    for (uint64_t i = 0; i < count; ++i) out[i] = at(i);
  });
}

template void widen(const WeightView&, float*, uint64_t);
template void widen(const WeightView&, double*, uint64_t);

}  // namespace ballast::reference
