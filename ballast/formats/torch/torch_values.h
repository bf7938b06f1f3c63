// The plain values of a pickle of PyTorch, as metadata holds them.
#pragma once

#include <string>

#include "ballast/formats/description.h"
#include "ballast/formats/torch/pickle.h"

namespace ballast {

// Numbers, truth values and texts as they are; integers that fit no 64 bits, and everything else that is not a
// container of names, as text in Python's spelling. A text longer than `max_text` is refused.
Result<MetaValue> torch_leaf(const PickleTree& tree, PickleValue value, size_t max_text);

// The key of a dict as part of a name: texts as they are, everything else in Python's spelling.
Result<std::string> torch_key(const PickleTree& tree, PickleValue value, size_t max_text);

// True where Python would print the value as one word or number.
bool is_torch_scalar(const PickleTree& tree, PickleValue value);

}  // namespace ballast
