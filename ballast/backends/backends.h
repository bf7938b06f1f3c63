// The table of backends.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/ops/backend.h"

namespace ballast {

// All backends there are, whether they find a device here or not.
std::span<const Backend* const> all_backends();
// Those that compute on this machine: find_devices has no complaint. Looks for devices.
std::vector<const Backend*> usable_backends();
// The one that computes where none is chosen: cuda where it is usable (and trains, if it is to), else cpu. Looks for
// devices.
const Backend& default_backend(bool to_train = false);
// Null where there is none of that name. "cuda:1" is the backend cuda on its second device.
const Backend* find_backend(std::string_view name);
// The default where the name is empty; kInvalidArgument names those there are.
Result<const Backend*> choose_backend(std::string_view name);
// The same for training; kUnsupported for one that does not train.
Result<const Backend*> choose_training_backend(std::string_view name);

}  // namespace ballast
