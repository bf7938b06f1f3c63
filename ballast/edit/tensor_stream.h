// Tensors changed while they are drawn: cut, joined, scaled. A plan edited with these still holds nothing; what a
// change must hold while it runs is said at each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ballast/archive/write.h"

namespace ballast {

// All bytes of a provider that gives `size` of them.
Result<ByteVector> draw_all(const TensorProvider& provider, uint64_t size);

// Of every row of `row_bytes` only the bytes [begin, end). Holds nothing.
TensorProvider row_ranges(TensorProvider provider, uint64_t row_bytes, uint64_t begin, uint64_t end);

// Rows of `row_bytes`, in groups of order.size(): the i-th of a group becomes what was its order[i]-th. Holds a group.
TensorProvider reordered_rows(TensorProvider provider, uint64_t row_bytes, std::vector<uint64_t> order);

// One after the other. Holds nothing.
TensorProvider joined(std::vector<TensorProvider> providers);

// f32 values, each replaced by change(value, its position). Holds a chunk. `change` is called in order of positions.
using ChangeValue = std::function<float(float value, uint64_t position)>;
// Made anew for each drawing, which may happen in several threads.
using MakeChange = std::function<Result<ChangeValue>()>;
TensorProvider changed_values(TensorProvider provider, MakeChange make_change);

}  // namespace ballast
