// Parameters that change: what training writes and running reads.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "ballast/params/param_source.h"

namespace ballast {

class Buffer;

// Named tensors in memory, aligned to 64. All are added before a store is opened over them. Whoever writes to one does
// so while nobody reads it: between steps.
class TrainedParams final : public ParamSource {
 public:
  explicit TrainedParams(std::string name = "model");
  ~TrainedParams() override;
  TrainedParams(TrainedParams&&) noexcept;
  TrainedParams& operator=(TrainedParams&&) noexcept;

  // Zeros. kInvalidArgument where the name is taken; kOutOfMemory.
  Result<size_t> add(TensorInfo info);

  MutableByteSpan bytes(size_t index);
  template <typename T>
  std::span<T> values(size_t index) {
    const MutableByteSpan all = bytes(index);
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }

  // What a file called this parameter by.
  void set_param_id(size_t index, std::optional<uint64_t> id) { infos_[index].param_id = id; }

  std::span<const TensorInfo> params() const override { return infos_; }
  std::optional<size_t> find(std::string_view name) const override { return find(base_param_id(name)); }
  std::optional<size_t> find(const BaseParamId& id) const override;
  Status read(size_t index, uint64_t offset, MutableByteSpan out) const override;
  std::optional<ByteSpan> view(size_t index) const override;
  bool reads_parts(size_t) const override { return true; }
  const std::string& name() const override { return name_; }
  bool is_constant() const override { return false; }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<Buffer> buffers_;
  std::map<std::array<std::byte, 16>, size_t> by_id_;
  std::string name_;
};

}  // namespace ballast
