// Matrices turned over when they are drawn.
#pragma once

#include <memory>

#include "ballast/archive/memory_gate.h"
#include "ballast/archive/write.h"

namespace ballast {

// Whether transpose_tensor can: rank 2, elements of whole bytes.
bool can_transpose(const TensorInfo& tensor);

// Makes tensor `index` of the plan, for which can_transpose holds, its transpose. Drawing it takes memory of its own
// size; tensors that share a gate do not add up beyond the gate's limit.
void transpose_tensor(WritePlan& plan, size_t index, const std::shared_ptr<MemoryGate>& gate);

}  // namespace ballast
