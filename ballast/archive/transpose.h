// Is one matrix the transpose of another, bit for bit? Part of diff.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/archive/memory_gate.h"
#include "ballast/archive/write.h"
#include "ballast/formats/archive.h"

namespace ballast {

// Two axes, elements of 1, 2, 4, 8 or 16 bytes, and at least one of them.
bool is_matrix(const TensorInfo& tensor);

// Both are matrices of the same type, and the shape of one is that of the other swapped.
bool may_be_transposed(const TensorInfo& a, const TensorInfo& b);

// Compares in tiles and stops at the first difference. Memory: a few MiB; payloads that are compressed, big-endian or
// in Fortran order take their size, which waits at `gate`. Only for tensors that may_be_transposed.
Result<bool> is_transposed(const Archive& a, size_t tensor_a, const Archive& b, size_t tensor_b, MemoryGate& gate);

// A number that a matrix and its transpose share, and that other matrices hardly have: `swapped` is true for one of the
// two and false for the other. Draws the payload once from `provider`.
Result<uint64_t> transpose_fingerprint(const TensorInfo& tensor, const TensorProvider& provider, bool swapped);

}  // namespace ballast
