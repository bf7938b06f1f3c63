// What a backend is: a device, and the implementations of functionals and routines that compute on it.
//
// Contract of every implementation: the result depends on shapes, values and the level alone. Neither the number of
// threads nor where rows of a parameter are cut may change a bit: each output element is one chain of operations in a
// fixed order.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/dtype.h"
#include "ballast/base/result.h"
#include "ballast/device/device.h"
#include "ballast/ops/operation_kinds.h"

namespace ballast {

class Registry;

// A row of the table of backends, or one that a program brings.
struct Backend {
  std::string_view name;
  std::string_view summary;
  Result<std::shared_ptr<Device>> (*open_device)();  // where its tensors live
  std::string_view (*level)();                       // the instruction set chosen at run time: "amx", "scalar"
  // What products with bf16 weights, or weights in blocks of this type, are computed with: "f32", "integers, avx2".
  std::string_view (*block_arithmetic)(DType, Numerics);
  // Adds its implementations to a registry that has none: Registry::add_builtin, Registry::add_routine. What it does
  // not add is refused where it is called.
  void (*add_implementations)(Registry& registry);
  // What devices it found, a line each; the error says why it cannot compute here. Null: it always can.
  Result<std::vector<std::string>> (*find_devices)() = nullptr;
  bool trains = true;
};

}  // namespace ballast
