// Matrices turned over when they are drawn.
#pragma once

#include <memory>

#include "ballast/archive/memory_gate.h"
#include "ballast/archive/write.h"

namespace ballast {

// Whether transpose_tensor can: rank 2, elements of whole bytes.
bool can_transpose(const TensorInfo& tensor);

// A matrix of `rows` x `columns` elements, drawn as `columns` x `rows`. Drawing it takes memory of its own size;
// tensors that share a gate do not add up beyond the gate's limit.
TensorProvider transposed(TensorProvider draw, uint64_t rows, uint64_t columns, size_t element_size,
                          const std::shared_ptr<MemoryGate>& gate);

// Makes tensor `index` of the plan, for which can_transpose holds, its transpose.
void transpose_tensor(WritePlan& plan, size_t index, const std::shared_ptr<MemoryGate>& gate);

}  // namespace ballast
