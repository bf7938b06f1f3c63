// Finds a tensor by the id of its name (base/param_id.h).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ballast/base/param_id.h"
#include "ballast/formats/description.h"

namespace ballast {

// Holds positions, no names: every call gets the same tensors. An id costs a hash of the name, and most who open a file
// never ask by id, so all of them are computed with the first question. May be asked from several threads; copies share
// what was computed.
class IdIndex {
 public:
  IdIndex();

  // The position of the tensor whose name has this id; of several of one name, the first. O(log n) after the first
  // call.
  std::optional<size_t> find(std::span<const TensorInfo> tensors, const BaseParamId& id) const;

 private:
  struct Lazy;
  std::shared_ptr<Lazy> lazy_;
};

// Whose id was most likely meant: one that differs in few digits, or whose bytes were written in the other order.
// nullopt when none comes near.
std::optional<size_t> nearest_id(std::span<const TensorInfo> tensors, const BaseParamId& id);

}  // namespace ballast
