// The parameters of one loaded model: who they are, and which of their bytes are in memory.
//
// Without a budget every parameter is the mapping of its file, and nothing is copied. With a budget, bytes are read
// into buffers of the store's own, a tile of rows at a time, and what all of them together occupy never exceeds it:
// derived forms and what is being read ahead included. The order of use repeats from pass to pass, so the store
// remembers it and gives up the tile whose next use is farthest away.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/base/param_id.h"
#include "ballast/params/param_source.h"

namespace ballast {

class ParamStore;

// A parameter of a model: cheap to copy, valid while its store lives.
class Param {
 public:
  Param() = default;

  bool valid() const { return store_ != nullptr; }
  const TensorInfo& info() const;
  const std::string& name() const { return info().name; }
  DType dtype() const { return info().dtype; }
  const Shape& shape() const { return info().shape; }
  BaseParamId base_id() const { return base_param_id(name()); }  // which parameter, whatever model it is of
  const ParamKey& key() const { return key_; }
  // Of the first dimension, of three dimensions those of all matrices; 1 for a scalar.
  uint64_t rows() const;
  uint64_t row_bytes() const;
  ParamStore& store() const { return *store_; }
  size_t index() const { return index_; }  // among the store's parameters

 private:
  friend class ParamStore;
  Param(ParamStore* store, size_t index, ParamKey key) : store_(store), index_(index), key_(key) {}

  ParamStore* store_ = nullptr;
  size_t index_ = 0;
  ParamKey key_;
};

struct ResidencyOptions {
  // Bytes that parameters may occupy at any instant; absent: as much as there is, mapped.
  std::optional<uint64_t> budget = std::nullopt;
  // Parameters of at most this size stay once they were read.
  uint64_t keep_below = 16 << 10;
  // So do those whose name this takes, and they are read ahead from the start. What stays leaves half of the budget,
  // and always enough to work with, to the others; beyond that, parameters of both sorts come and go like any.
  std::function<bool(std::string_view name)> keep = nullptr;
  // Read the next tiles on a thread of their own while this one is computed with.
  bool read_ahead = true;
};

// Of a store's own memory: the mapping of a file is not counted.
struct ResidencyStats {
  uint64_t budget = 0;  // 0: none
  uint64_t resident = 0;
  uint64_t peak = 0;  // of `resident`, ever
  uint64_t bytes_read = 0;
  uint64_t hits = 0;    // asked for and there
  uint64_t misses = 0;  // asked for and read
  uint64_t evictions = 0;
  uint64_t waits = 0;  // times that computing waited for the disk
  double wait_seconds = 0;
};

// Bytes that stay where they are while this lives. Move-only. The store must outlive it.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept { swap(other); }
  Lease& operator=(Lease&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Lease() {
    if (piece_ != nullptr) release();
  }

  // Rows [first_row, first_row + row_count) of the parameter, or a derived form whole. Aligned to nothing where they
  // are the mapping of a file.
  ByteSpan bytes() const { return bytes_; }
  uint64_t first_row() const { return first_row_; }
  uint64_t row_count() const { return row_count_; }

 private:
  friend class ParamStore;
  Lease(ByteSpan bytes, uint64_t first_row, uint64_t row_count)
      : bytes_(bytes), first_row_(first_row), row_count_(row_count) {}
  void release();
  void swap(Lease& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(first_row_, other.first_row_);
    std::swap(row_count_, other.row_count_);
    std::swap(store_, other.store_);
    std::swap(piece_, other.piece_);
  }

  ByteSpan bytes_;
  uint64_t first_row_ = 0;
  uint64_t row_count_ = 0;
  ParamStore* store_ = nullptr;
  void* piece_ = nullptr;  // what the store holds for it; null for what stays as long as the store
};

// Another form of a parameter (packed, transposed, cast), made once and kept under the parameter's key and this name.
struct DerivedForm {
  std::string_view name;  // "gemm_panels_16": the layout and its version, nothing that depends on threads
  uint64_t bytes = 0;     // of the result
  // Fills `out` (aligned to 64) from the parameter, whose rows it takes from the store tile by tile.
  std::function<Status(const Param& param, MutableByteSpan out)> make;
};

// Parameters may be asked for on any thread. Under a budget the working set of one computing thread always fits; where
// several compute at once and hold more than the budget, one of them gets an error.
class ParamStore {
 public:
  // A fresh namespace unless one is given. kInvalidArgument when the budget is below what the largest row needs: the
  // text names the parameter and the smallest budget that works.
  static Result<std::unique_ptr<ParamStore>> open(std::shared_ptr<const ParamSource> source,
                                                  const ResidencyOptions& options = {},
                                                  std::optional<ModelNamespaceId> model = std::nullopt);
  ~ParamStore();
  ParamStore(const ParamStore&) = delete;
  ParamStore& operator=(const ParamStore&) = delete;

  // kNotFound names near misses.
  Result<Param> get(std::string_view name);
  Result<Param> get(const BaseParamId& id);
  const ParamSource& source() const;
  const ModelNamespaceId& model() const;
  bool has_budget() const;

  // The parameter from `first_row` on: all rows without a budget, as many as a tile holds with one. Kernels go on
  // asking until they have all rows; their results must not depend on where the tiles end.
  //
  //   for (uint64_t row = 0; row < param.rows(); row += lease.row_count()) {
  //     BALLAST_TRY(const Lease lease, store.rows(param, row)); ...
  //   }
  Result<Lease> rows(const Param& param, uint64_t first_row = 0);
  // Single rows, read without the rest of the table.
  Status read_row(const Param& param, uint64_t row, MutableByteSpan out);
  // The whole parameter at once: for small ones, such as biases. Fails where it does not fit the budget.
  Result<Lease> whole(const Param& param);
  // nullopt where there is no room for it beside the working set, and where parameters change: the caller computes with
  // rows() then.
  Result<std::optional<Lease>> derived(const Param& param, const DerivedForm& form);
  // For whoever derives forms of this parameter, which must be of this store: a count of uses by which to tell whether
  // a form is worth its memory. 0 at first; any thread may use it.
  std::atomic<uint32_t>& derived_uses(const Param& param);

  // What a device keeps of this store: `make` is called once for each device, and what it gives goes with the store. It
  // must keep the device alive.
  std::shared_ptr<void> on_device(const void* device, const std::function<std::shared_ptr<void>()>& make);

  ResidencyStats stats() const;

 private:
  friend class Lease;
  friend class Param;
  struct State;
  explicit ParamStore(std::unique_ptr<State> state);
  Error not_mine() const;
  std::unique_ptr<State> state_;
};

}  // namespace ballast
