#include "ballast/backends/opencl/resident_params.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/backends/typed_access.h"

namespace ballast::opencl {

ResidentParams& ResidentParams::of(const Context& context, ParamStore& store) {
  OpenClDevice& device = queue_of(context).opencl_device();
  const auto kept =
      store.on_device(&device, [&] { return std::make_shared<ResidentParams>(device.shared_from_this()); });
  return *static_cast<ResidentParams*>(kept.get());
}

DeviceMemory* ResidentParams::find(const Param& param, std::string_view name) {
  if (param.index() >= entries_.size()) return nullptr;
  Copies& copies = entries_[param.index()];
  const auto found = std::ranges::find(copies, name, &Copy::name);
  return found == copies.end() ? nullptr : found->memory.get();
}

DeviceMemory& ResidentParams::keep(const Param& param, std::string_view name, std::unique_ptr<DeviceMemory> memory) {
  if (param.index() >= entries_.size()) entries_.resize(param.index() + 1);
  return *entries_[param.index()].emplace_back(std::string(name), std::move(memory)).memory;
}

Result<std::unique_ptr<DeviceMemory>> ResidentParams::make_room(const Param& param, uint64_t bytes) {
  auto memory = device_->allocate(bytes);
  if (memory) return memory;
  return std::move(memory).error().with_context(
      fmt::format("{}: parameter \"{}\"", param.store().source().name(), param.name()));
}

// Waits, because other queues may use it next and because a queue with an error leaves out what is put in behind it.
Status ResidentParams::upload(Context& context, const Param& param, DeviceMemory& memory) {
  OpenClQueue& queue = queue_of(context);
  uint64_t offset = 0;
  BALLAST_CHECK(for_each_tile(param, [&](const Lease& lease) -> Status {
    queue.copy_in({&memory, offset}, lease.bytes());
    offset += lease.bytes().size();
    return {};
  }));
  return queue.finish();
}

Result<Buffer> ResidentParams::stored(Context& context, const Param& param) {
  const std::lock_guard lock(mutex_);
  DeviceMemory* const known = find(param, {});
  if (known != nullptr && param.store().source().is_constant()) return device_buffer(*known);
  if (known != nullptr) {  // it may have changed: once more, to the same place
    BALLAST_CHECK(queue_of(context).finish());
    BALLAST_CHECK(upload(context, param, *known));
    return device_buffer(*known);
  }
  BALLAST_TRY(std::unique_ptr<DeviceMemory> memory, make_room(param, param.info().byte_size));
  BALLAST_CHECK(upload(context, param, *memory));
  return device_buffer(keep(param, {}, std::move(memory)));
}

Result<Buffer> ResidentParams::form(Context& context, const Param& param, const WeightForm& form) {
  const std::lock_guard lock(mutex_);
  DeviceMemory* const known = find(param, form.name);
  if (known != nullptr && param.store().source().is_constant()) return device_buffer(*known);
  if (known != nullptr) {
    BALLAST_CHECK(fill_form(context, param, form, *known));
    return device_buffer(*known);
  }
  BALLAST_TRY(std::unique_ptr<DeviceMemory> memory, make_room(param, form.bytes));
  BALLAST_CHECK(fill_form(context, param, form, *memory));
  return device_buffer(keep(param, form.name, std::move(memory)));
}

// From the stored bytes, if they are there, else from a copy of them that goes when the form is made.
Status ResidentParams::fill_form(Context& context, const Param& param, const WeightForm& form, DeviceMemory& memory) {
  DeviceMemory* stored = param.store().source().is_constant() ? find(param, {}) : nullptr;
  std::unique_ptr<DeviceMemory> passing;
  if (stored == nullptr) {
    BALLAST_TRY(passing, make_room(param, param.info().byte_size));
    BALLAST_CHECK(upload(context, param, *passing));
    stored = passing.get();
  }
  const WeightSpan span{device_buffer(*stored), 0, param.dtype(), param.rows(), param.row_bytes()};
  BALLAST_CHECK(form.make(context, span, device_buffer(memory)));
  return queue_of(context).finish();
}

}  // namespace ballast::opencl
