// Elements of weights, one at a time.
#pragma once

#include "ballast/backends/host/kernel_table.h"
#include "ballast/tensor/element.h"

namespace ballast::reference {

// Calls body(at), where at(i) is element i of the weight as a T.
template <typename T, typename Body>
void with_elements(const WeightView& weight, const Body& body) {
  visit_element(weight.dtype, [&]<typename E>() {
    body([data = weight.data](uint64_t i) { return static_cast<T>(E::decode(load_bits<E>(data, i))); });
  });
}

inline uint64_t bytes_of_blocks(DType dtype, uint64_t count) {
  return count / dtype_info(dtype).block_elements * dtype_info(dtype).block_bytes;
}

}  // namespace ballast::reference
