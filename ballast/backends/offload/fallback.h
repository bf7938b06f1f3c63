// What backends share whose device has memory that the host cannot reach: what such a device does not compute, the host
// does. Inputs are copied there, the backend `cpu` computes, and the results are copied back. Slow, complete, and told
// to whoever asks the device (Device::fallbacks).
#pragma once

#include <mutex>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ballast/ops/ops.h"
#include "ballast/ops/registry.h"

namespace ballast::offload {

class OffloadMemory : public DeviceMemory {
 public:
  // While the host computes in place of the device: where it finds a copy.
  void show(std::byte* copy) { set_host_address(copy); }

 protected:
  using DeviceMemory::DeviceMemory;
};

// What the host has computed in place of a device, in the order of first use. Any thread.
class FallbackList {
 public:
  void note(std::string_view name);
  std::vector<std::string_view> names() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string_view> names_;
};

// A queue of a device whose memory is OffloadMemory.
class OffloadQueue : public Queue {
 public:
  // For what the host computes in place of the device.
  Workspace& host_workspace() { return host_workspace_; }
  virtual FallbackList& fallback_list() const = 0;

 private:
  Workspace host_workspace_{host_queue()};
};

// Defined in fallback.cc for every functional and routine there is. The context's queue must be an OffloadQueue.
template <typename Args>
Result<Tensor> run_on_host(Context& context, const Args& args);
template <typename Args>
Status run_routine_on_host(Context& context, const Args& args);

// Every functional and every routine, computed by the host. Families replace what the device computes itself.
void add_fallbacks(Registry& registry);

// Registers what a family computes on the device. Where kSupports(context, args) is false, the host computes instead,
// as it does for functionals and routines that no family registers.
template <typename Args, auto kRun, auto kSupports = nullptr>
void add_functional(Registry& registry) {
  registry.add_builtin<Args>(nullptr, [](Context& context, const Args& args) -> Result<Tensor> {
    if constexpr (!std::is_same_v<decltype(kSupports), std::nullptr_t>) {
      if (!kSupports(context, args)) return run_on_host(context, args);
    }
    return kRun(context, args);
  });
}
template <typename Args, auto kRun, auto kSupports = nullptr>
void add_routine(Registry& registry) {
  registry.add_routine<Args>([](Context& context, const Args& args) -> Status {
    if constexpr (!std::is_same_v<decltype(kSupports), std::nullptr_t>) {
      if (!kSupports(context, args)) return run_routine_on_host(context, args);
    }
    return kRun(context, args);
  });
}

// Registers the tables of rotary embeddings, which the host computes in double and copies: they are few, and the same
// bits everywhere.
void add_rope_tables(Registry& registry);

}  // namespace ballast::offload
