// Sources of parameters that count what is read, fail or wait when a test says so.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ballast/formats/id_index.h"
#include "ballast/params/param_source.h"
#include "ballast/params/param_store.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

// Bytes that are computed from where they stand: any size costs no memory, and any mix-up shows.
inline std::byte generated_byte(size_t param, uint64_t offset) {
  const uint64_t mixed = (offset + 1) * 0x9E3779B97F4A7C15U + param * 0xC2B2AE3D27D4EB4FU;
  return static_cast<std::byte>(mixed >> 56);
}

inline bool holds_generated(ByteSpan bytes, size_t param, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != generated_byte(param, offset + i)) return false;
  }
  return true;
}

class GeneratedSource final : public ParamSource {
 public:
  struct Read {
    size_t param;
    uint64_t offset;
    uint64_t bytes;
  };
  // Is called before each read, without a lock; what it returns is what the read gives if it is an error.
  using Hook = std::function<Status(const Read&)>;

  explicit GeneratedSource(std::vector<TensorInfo> params) : params_(std::move(params)) {}

  void set_hook(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  void set_reads_parts(bool reads_parts) { reads_parts_ = reads_parts; }
  std::vector<Read> reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  void forget_reads() {
    const std::lock_guard lock(mutex_);
    reads_.clear();
  }
  uint64_t bytes_read(size_t param) const {
    uint64_t bytes = 0;
    for (const Read& read : reads()) bytes += read.param == param ? read.bytes : 0;
    return bytes;
  }

  std::span<const TensorInfo> params() const override { return params_; }
  std::optional<size_t> find(std::string_view name) const override {
    for (size_t i = 0; i < params_.size(); ++i) {
      if (params_[i].name == name) return i;
    }
    return std::nullopt;
  }
  std::optional<size_t> find(const BaseParamId& id) const override { return by_id_.find(params_, id); }
  Status read(size_t index, uint64_t offset, MutableByteSpan out) const override {
    const Read read{index, offset, out.size()};
    Hook hook;
    {
      const std::lock_guard lock(mutex_);
      reads_.push_back(read);
      hook = hook_;
    }
    if (hook) BALLAST_CHECK(hook(read));
    for (size_t i = 0; i < out.size(); ++i) out[i] = generated_byte(index, offset + i);
    return {};
  }
  std::optional<ByteSpan> view(size_t) const override { return std::nullopt; }
  bool reads_parts(size_t) const override { return reads_parts_; }
  const std::string& name() const override { return name_; }

 private:
  std::vector<TensorInfo> params_;
  IdIndex by_id_;
  std::string name_ = "generated";
  bool reads_parts_ = true;
  mutable std::mutex mutex_;
  Hook hook_;
  mutable std::vector<Read> reads_;
};

// A door that threads wait at until the test opens it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  void wait_for_arrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int arrived_ = 0;
};

// "w0", "w1", ...: matrices of the same shape.
inline std::vector<TensorInfo> make_matrices(size_t count, uint64_t rows, uint64_t columns) {
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < count; ++i) infos.push_back(make_info("w" + std::to_string(i), DType::kF32, {rows, columns}));
  return infos;
}

inline std::unique_ptr<ParamStore> open_store(std::shared_ptr<const ParamSource> source,
                                              const ResidencyOptions& options) {
  auto store = ParamStore::open(std::move(source), options);
  return store ? std::move(*store) : nullptr;
}

}  // namespace ballast::testing
