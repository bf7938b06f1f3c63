// What the implementations of host backends share: the types of activations, and the tiles of parameters.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ballast/ops/ops.h"

namespace ballast {

template <typename T>
inline constexpr DType kDTypeOf = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;

// Calls body.operator()<T>() with the type of activations, which checks have found to be f32 or f64.
template <typename Body>
auto with_type(DType dtype, Body&& body) {
  return dtype == DType::kF64 ? body.template operator()<double>() : body.template operator()<float>();
}

// Calls body(lease, rows) for tiles that follow each other and whose first `rows` rows together are rows
// [first, first + count) of the parameter.
template <typename Body>
Status for_each_tile(const Param& param, uint64_t first, uint64_t count, const Body& body) {
  for (uint64_t row = first, end = first + count; row < end;) {
    BALLAST_TRY(const Lease lease, param.store().rows(param, row));
    const uint64_t rows = lease.row_count() < end - row ? lease.row_count() : end - row;
    BALLAST_CHECK(body(lease, rows));
    row += rows;
  }
  return {};
}
// The same for the whole parameter: body(lease).
template <typename Body>
Status for_each_tile(const Param& param, const Body& body) {
  return for_each_tile(param, 0, param.rows(), [&](const Lease& lease, uint64_t) { return body(lease); });
}

}  // namespace ballast
