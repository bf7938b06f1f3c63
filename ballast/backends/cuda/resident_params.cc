#include "ballast/backends/cuda/resident_params.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/backends/typed_access.h"

namespace ballast::cuda {

namespace {

constexpr unsigned kUploadEvent = 2;  // CU_EVENT_DISABLE_TIMING

// A queue with an error leaves out what is put in behind it, and what it was to fill holds anything. The error is told
// here, because the functional fails with it: the next pass starts anew.
Status check_went_in(CudaQueue& queue) { return queue.status() ? Status() : queue.finish(); }

}  // namespace

ResidentParams::Copy::~Copy() {
  if (made == nullptr) return;
  device.make_current();
  device.driver().event_destroy(made);
}

ResidentParams& ResidentParams::of(const Context& context, ParamStore& store) {
  CudaDevice& device = queue_of(context).cuda_device();
  const auto kept =
      store.on_device(&device, [&] { return std::make_shared<ResidentParams>(device.shared_from_this()); });
  return *static_cast<ResidentParams*>(kept.get());
}

ResidentParams::Copy* ResidentParams::find(const Param& param, std::string_view name) {
  if (param.index() >= entries_.size()) return nullptr;
  const auto& copies = entries_[param.index()].copies;
  const auto found = std::ranges::find(copies, name, [](const auto& copy) -> std::string_view { return copy->name; });
  return found == copies.end() ? nullptr : found->get();
}

ResidentParams::Copy* ResidentParams::keep(const Param& param, std::unique_ptr<Copy> copy) {
  if (param.index() >= entries_.size()) entries_.resize(param.index() + 1);
  return entries_[param.index()].copies.emplace_back(std::move(copy)).get();
}

// Work in one queue is in order; another queue waits for what the first has not done.
Result<CudaPointer> ResidentParams::ready(Copy& copy, const CudaQueue& queue) {
  if (copy.maker != nullptr && copy.maker != &queue) {
    device_->make_current();
    BALLAST_CHECK(device_->driver().check(device_->driver().event_finish(copy.made), "waiting for parameters"));
    copy.maker = nullptr;
  }
  return device_address(*copy.memory);
}

Status ResidentParams::mark_made(Copy& copy, CudaQueue& queue) {
  queue.keep_next_apart();
  const Driver& driver = device_->driver();
  device_->make_current();
  if (copy.made == nullptr) {
    BALLAST_CHECK(driver.check(driver.event_create(&copy.made, kUploadEvent), "making an event"));
  }
  BALLAST_CHECK(driver.check(driver.event_record(copy.made, queue.stream()), "recording an event"));
  copy.maker = &queue;
  return {};
}

Result<std::unique_ptr<ResidentParams::Copy>> ResidentParams::make_copy(const Param& param, std::string_view name,
                                                                        uint64_t bytes) {
  auto memory = device_->allocate(bytes);
  if (!memory) {
    return std::move(memory).error().with_context(
        fmt::format("{}: parameter \"{}\"", param.store().source().name(), param.name()));
  }
  auto copy = std::make_unique<Copy>(*device_);
  copy->name = name;
  copy->memory = *std::move(memory);
  return copy;
}

Status ResidentParams::upload(Context& context, const Param& param, DeviceMemory& memory) {
  CudaQueue& queue = queue_of(context);
  uint64_t offset = 0;
  BALLAST_CHECK(for_each_tile(param, [&](const Lease& lease) -> Status {
    queue.copy_in({&memory, offset}, lease.bytes(), &context.threads());
    offset += lease.bytes().size();
    return {};
  }));
  return check_went_in(queue);
}

Result<CudaPointer> ResidentParams::stored(Context& context, const Param& param) {
  const std::lock_guard lock(mutex_);
  CudaQueue& queue = queue_of(context);
  Copy* copy = find(param, {});
  if (copy != nullptr && param.store().source().is_constant()) return ready(*copy, queue);
  if (copy == nullptr) {
    BALLAST_TRY(std::unique_ptr<Copy> made, make_copy(param, {}, param.info().byte_size));
    BALLAST_CHECK(upload(context, param, *made->memory));
    BALLAST_CHECK(mark_made(*made, queue));
    return device_address(*keep(param, std::move(made))->memory);
  }
  // It may have changed: once more, to the same place.
  BALLAST_CHECK(ready(*copy, queue));
  BALLAST_CHECK(upload(context, param, *copy->memory));
  BALLAST_CHECK(mark_made(*copy, queue));
  return device_address(*copy->memory);
}

Result<CudaPointer> ResidentParams::form(Context& context, const Param& param, const WeightForm& form) {
  const std::lock_guard lock(mutex_);
  CudaQueue& queue = queue_of(context);
  const bool is_constant = param.store().source().is_constant();
  Copy* copy = find(param, form.name);
  if (copy != nullptr && is_constant) return ready(*copy, queue);
  if (copy == nullptr) {
    BALLAST_TRY(std::unique_ptr<Copy> made, make_copy(param, form.name, form.bytes));
    copy = made.get();
    BALLAST_CHECK(fill_form(context, param, form, *copy));
    keep(param, std::move(made));
    return device_address(*copy->memory);
  }
  BALLAST_CHECK(ready(*copy, queue));
  BALLAST_CHECK(fill_form(context, param, form, *copy));
  return device_address(*copy->memory);
}

// From the stored bytes, if they are there, else from a copy of them that goes when the form is made.
Status ResidentParams::fill_form(Context& context, const Param& param, const WeightForm& form, Copy& copy) {
  CudaQueue& queue = queue_of(context);
  Copy* stored = param.store().source().is_constant() ? find(param, {}) : nullptr;
  std::unique_ptr<Copy> passing;
  if (stored == nullptr) {
    BALLAST_TRY(passing, make_copy(param, {}, param.info().byte_size));
    BALLAST_CHECK(upload(context, param, *passing->memory));
    stored = passing.get();
  }
  BALLAST_TRY(const CudaPointer address, ready(*stored, queue));
  const WeightSpan span{address, param.dtype(), param.rows(), param.row_bytes()};
  BALLAST_CHECK(form.make(context, span, device_address(*copy.memory)));
  BALLAST_CHECK(check_went_in(queue));
  return mark_made(copy, queue);
}

}  // namespace ballast::cuda
