// The parameters of a store that are in a device's memory: uploaded when they are first used, and kept as long as the
// store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ballast/backends/opencl/device.h"
#include "ballast/backends/opencl/launch.h"

namespace ballast::opencl {

// Any thread. What is here is whole: whoever uploads waits for the device.
class ResidentParams {
 public:
  explicit ResidentParams(std::shared_ptr<OpenClDevice> device) : device_(std::move(device)) {}

  // Of the context's device.
  static ResidentParams& of(const Context& context, ParamStore& store);

  // As the store has it.
  Result<Buffer> stored(Context& context, const Param& param);
  Result<Buffer> form(Context& context, const Param& param, const WeightForm& form);

 private:
  struct Copy {
    std::string name;  // of the form; empty: as stored
    std::unique_ptr<DeviceMemory> memory;
  };
  using Copies = std::vector<Copy>;

  DeviceMemory* find(const Param& param, std::string_view name);
  Result<std::unique_ptr<DeviceMemory>> make_room(const Param& param, uint64_t bytes);
  DeviceMemory& keep(const Param& param, std::string_view name, std::unique_ptr<DeviceMemory> memory);
  static Status upload(Context& context, const Param& param, DeviceMemory& memory);
  Status fill_form(Context& context, const Param& param, const WeightForm& form, DeviceMemory& memory);

  const std::shared_ptr<OpenClDevice> device_;
  std::mutex mutex_;
  std::vector<Copies> entries_;  // by Param::index()
};

}  // namespace ballast::opencl
