#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/backends/opencl/device.h"

namespace ballast::opencl {

namespace {

DriverMemory handle_of(const auto& place) { return static_cast<const OpenClMemory*>(place.memory)->handle(); }

}  // namespace

OpenClQueue::~OpenClQueue() {
  device_->driver().finish(queue_);
  device_->driver().queue_release(queue_);
}

void OpenClQueue::check(DriverCode code, std::string_view doing) {
  if (code != kDriverSuccess && is_going()) status_ = Driver::error(code, doing);
}

void OpenClQueue::fill(DevicePlace to, uint64_t bytes, std::byte value) {
  if (bytes == 0 || !is_going()) return;
  check(device_->driver().fill(queue_, handle_of(to), &value, 1, to.offset, bytes, 0, nullptr, nullptr),
        "filling memory");
}

void OpenClQueue::copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) {
  if (bytes == 0 || !is_going()) return;
  check(device_->driver().copy(queue_, handle_of(from), handle_of(to), from.offset, to.offset, bytes, 0, nullptr,
                               nullptr),
        "copying within the device");
}

void OpenClQueue::copy_in(DevicePlace to, ByteSpan from) {
  if (from.empty() || !is_going()) return;
  const bool is_staged = from.size() <= kLargestStaged && staged_bytes_ + from.size() <= kMostStaged;
  const void* source = from.data();
  if (is_staged) {
    source = staged_.emplace_back(from.begin(), from.end()).data();
    staged_bytes_ += from.size();
  }
  check(device_->driver().write(queue_, handle_of(to), is_staged ? 0 : 1, to.offset, from.size(), source, 0, nullptr,
                                nullptr),
        "copying to the device");
  if (is_staged) return;
  // The driver has waited for this copy, and so for those before it.
  staged_.clear();
  staged_bytes_ = 0;
}

void OpenClQueue::copy_out(ConstDevicePlace from, MutableByteSpan to) {
  if (to.empty() || !is_going()) return;
  check(device_->driver().read(queue_, handle_of(from), 0, from.offset, to.size(), to.data(), 0, nullptr, nullptr),
        "copying to the host");
}

Status OpenClQueue::finish() {
  // Also behind an error: what was put in before it may still read and write memory of the caller's.
  check(device_->driver().finish(queue_), "computing");
  staged_.clear();
  staged_bytes_ = 0;
  return std::exchange(status_, Status());
}

Status OpenClQueue::launch(const Kernel& kernel, const Grid& grid, std::span<const Argument> arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || !is_going()) return {};
  return device_->launch(queue_, kernel, grid, arguments);
}

}  // namespace ballast::opencl
