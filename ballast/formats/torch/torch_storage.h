// The storages that a pickle of PyTorch speaks of: runs of elements that tensors are views of.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/formats/torch/pickle.h"
#include "ballast/formats/torch/torch_names.h"

namespace ballast {

// Where the bytes of a storage lie.
struct TorchRecord {
  uint64_t offset = 0;
  uint64_t stored_size = 0;  // compressed where compressed
  std::optional<uint32_t> crc32 = std::nullopt;
  bool deflated = false;
};

struct TorchStorage {
  std::string_view key;
  TorchType type;
  uint64_t count = 0;   // elements
  uint64_t offset = 0;  // in the pickle, where it is first spoken of
  TorchRecord record = {};

  uint64_t bytes() const { return count * type.bytes; }
};

// What one persistent id stands for: a storage, or, in the legacy stream, a part of one.
struct TorchStorageUse {
  PickleValue id = 0;
  uint32_t storage = 0;
  uint64_t first = 0;  // in elements
  uint64_t count = 0;
};

class TorchStorages {
 public:
  // Reads and checks every persistent id of the tree: one type and one length per key. `with_views`: ids have the sixth
  // field of the legacy stream. `where` begins the error texts.
  static Result<TorchStorages> collect(const PickleTree& tree, bool with_views, const std::string& where);

  // In ascending order of their keys.
  std::span<TorchStorage> all() { return storages_; }
  std::span<const TorchStorage> all() const { return storages_; }
  // Of a kPersistent.
  const TorchStorageUse& use(PickleValue id) const;

 private:
  Status add(const TorchStorage& storage, const std::function<Error(std::string_view)>& refuse);

  std::vector<TorchStorage> storages_;
  std::vector<TorchStorageUse> uses_;  // ascending by id
};

}  // namespace ballast
