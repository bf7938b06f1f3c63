// The parameters of a store that are in a device's memory: uploaded when they are first used, and kept as long as the
// store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ballast/backends/cuda/device.h"
#include "ballast/backends/cuda/launch.h"

namespace ballast::cuda {

// Any thread. What one queue has uploaded another waits for.
class ResidentParams {
 public:
  explicit ResidentParams(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  // Of the context's device.
  static ResidentParams& of(const Context& context, ParamStore& store);

  // As the store has it.
  Result<CudaPointer> stored(Context& context, const Param& param);
  Result<CudaPointer> form(Context& context, const Param& param, const WeightForm& form);

 private:
  struct Copy {
    explicit Copy(const CudaDevice& device_) : device(device_) {}
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    const CudaDevice& device;
    std::string name;  // of the form; empty: as stored
    std::unique_ptr<DeviceMemory> memory;
    const CudaQueue* maker = nullptr;  // whose work on it may not be done
    DriverEvent made = nullptr;
  };
  struct Entry {
    std::vector<std::unique_ptr<Copy>> copies;
  };

  Copy* find(const Param& param, std::string_view name);
  Result<CudaPointer> ready(Copy& copy, const CudaQueue& queue);
  Status mark_made(Copy& copy, CudaQueue& queue);
  Result<std::unique_ptr<Copy>> make_copy(const Param& param, std::string_view name, uint64_t bytes);
  Status upload(Context& context, const Param& param, DeviceMemory& memory);
  Status fill_form(Context& context, const Param& param, const WeightForm& form, Copy& copy);
  Copy* keep(const Param& param, std::unique_ptr<Copy> copy);

  const std::shared_ptr<CudaDevice> device_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // by Param::index()
};

}  // namespace ballast::cuda
