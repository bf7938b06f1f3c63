// Arrays of numbers as JSON: the nested lists in which netcl's checkpoints carry the state of an optimizer.
#pragma once

#include <span>
#include <string>

#include "ballast/base/json.h"
#include "ballast/base/shape.h"

namespace ballast {

// Appends nested lists of this shape; a rank of 0 is one number.
void append_nested(std::string& out, const Shape& shape, std::span<const float> values);

// Reads nested lists of exactly this shape. `what` names them in errors, which are kInvalidArgument.
Status read_nested(JsonReader& json, const Shape& shape, std::span<float> values, const std::string& what);

}  // namespace ballast
