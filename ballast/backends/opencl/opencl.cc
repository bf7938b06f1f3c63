#include "ballast/backends/opencl.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "ballast/backends/backends.h"
#include "ballast/backends/opencl/device.h"
#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/program_cache.h"
#include "ballast/backends/opencl/weight_access.h"
#include "ballast/device/device_access.h"
#include "ballast/io/process_id.h"

namespace ballast {

namespace {

using opencl::Driver;
using opencl::OpenClDevice;
using opencl::OpenClMemory;
using OpenClInfo = opencl::DeviceInfo;

// What this machine has. Found once, because drivers take their time.
struct OpenClMachine {
  std::shared_ptr<const Driver> driver;
  std::vector<OpenClInfo> devices;
};

Result<OpenClMachine> find_opencl() {
  BALLAST_TRY(std::shared_ptr<const Driver> driver, Driver::system());
  BALLAST_TRY(std::vector<OpenClInfo> devices, opencl::list_devices(*driver));
  return OpenClMachine{std::move(driver), std::move(devices)};
}

// Drivers have threads, and serve no process that this one forks.
const Result<OpenClMachine>& opencl_machine() {
  static const int64_t first_process = process_id();
  static const auto* const found = new Result<OpenClMachine>(find_opencl());
  if (!*found || process_id() == first_process) return *found;
  static const auto* const forked = new Result<OpenClMachine>(
      make_error(ErrorCode::kUnsupported,
                 "OpenCL: it cannot be used after fork(), because the parent process has used it: start processes with "
                 "spawn, or compute with the backend \"cpu\""));
  return *forked;
}

Status check_usable(const OpenClInfo& info) {
  if (info.lacks().empty()) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("OpenCL: device {}, {}, cannot compute: {}; use another device or another backend",
                                info.index, info.name, info.lacks()));
}

constexpr size_t kMostOpenClDevices = 16;

Result<const OpenClInfo*> opencl_device_at(size_t index) {
  const Result<OpenClMachine>& found = opencl_machine();
  if (!found) return found.error();
  if (index >= found->devices.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("OpenCL: there is no device {}; the last is {}", index, found->devices.size() - 1));
  }
  BALLAST_CHECK(check_usable(found->devices[index]));
  return &found->devices[index];
}

std::span<const OpenClInfo> numbered_devices(const OpenClMachine& machine) {
  return std::span(machine.devices).first(std::min(machine.devices.size(), kMostOpenClDevices));
}

Result<const OpenClInfo*> first_opencl_device() {
  const Result<OpenClMachine>& found = opencl_machine();
  if (!found) return found.error();
  for (const opencl::DriverBits type : {opencl::kDriverGpu, opencl::kDriverAccelerator, opencl::kDriverAnyDevice}) {
    for (const OpenClInfo& info : numbered_devices(*found)) {
      if ((info.type & type) != 0 && info.lacks().empty()) return &info;
    }
  }
  return std::move(check_usable(found->devices.front())).error();
}

// Opened once and kept, with its kernels: executions come and go.
Result<std::shared_ptr<Device>> open_opencl(size_t index) {
  BALLAST_TRY(const OpenClInfo* info, opencl_device_at(index));
  static std::mutex mutex;
  static auto* const opened = new std::array<std::shared_ptr<OpenClDevice>, kMostOpenClDevices>();
  const std::lock_guard lock(mutex);
  std::shared_ptr<OpenClDevice>& device = (*opened)[index];
  if (device == nullptr) {
    BALLAST_TRY(device, OpenClDevice::open(opencl_machine()->driver, *info));
  }
  return std::shared_ptr<Device>(device);
}

Result<std::shared_ptr<Device>> open_first_opencl() {
  BALLAST_TRY(const OpenClInfo* info, first_opencl_device());
  return open_opencl(info->index);
}

std::string_view opencl_level() {
  const auto info = first_opencl_device();
  return info ? (*info)->kind() : "none";
}

std::string_view opencl_level_at(size_t index) {
  const auto info = opencl_device_at(index);
  return info ? (*info)->kind() : "none";
}

std::string opencl_line(const OpenClInfo& info) {
  const std::string_view lack = info.lacks();
  return fmt::format("opencl:{} {}, {}, {:.1f} GB, {} compute units, {}, driver {}{}{}", info.index, info.name,
                     info.kind(), static_cast<double>(info.memory) / 1e9, info.compute_units, info.platform,
                     info.driver_version, lack.empty() ? "" : ": cannot compute: ", lack);
}

Result<std::vector<std::string>> describe_opencl() {
  const Result<OpenClMachine>& found = opencl_machine();
  if (!found) return found.error();
  BALLAST_CHECK(first_opencl_device());
  std::vector<std::string> lines;
  for (const OpenClInfo& info : numbered_devices(*found)) lines.push_back(opencl_line(info));
  return lines;
}

Result<std::vector<std::string>> describe_opencl_at(size_t index) {
  BALLAST_TRY(const OpenClInfo* info, opencl_device_at(index));
  return std::vector<std::string>{opencl_line(*info)};
}

// Types that no kernel reads are the CPU's.
std::string_view opencl_arithmetic(DType dtype, Numerics numerics) {
  if (!opencl::weight_type_of(dtype)) return find_backend("cpu")->block_arithmetic(dtype, numerics);
  return "f32";
}

void add_opencl_implementations(Registry& registry) {
  using namespace opencl;  // NOLINT: a list of its families
  offload::add_fallbacks(registry);
  for (const auto add_family : {add_activation, add_attention, add_conv, add_embedding, add_linalg, add_normalization,
                                add_pooling, add_rotary, add_shape, add_tensor_ops}) {
    add_family(registry);
  }
}

constexpr Backend make_opencl_backend(std::string_view name, decltype(Backend::open_device) open_device,
                                      decltype(Backend::level) level, decltype(Backend::find_devices) find_devices) {
  return Backend{
      .name = name,
      .summary = "GPUs, CPUs and accelerators that have an OpenCL driver",
      .open_device = open_device,
      .level = level,
      .block_arithmetic = opencl_arithmetic,
      .add_implementations = add_opencl_implementations,
      .find_devices = find_devices,
      .trains = false,
  };
}

constexpr std::array<std::string_view, kMostOpenClDevices> kOpenClNames = {
    "opencl:0", "opencl:1", "opencl:2",  "opencl:3",  "opencl:4",  "opencl:5",  "opencl:6",  "opencl:7",
    "opencl:8", "opencl:9", "opencl:10", "opencl:11", "opencl:12", "opencl:13", "opencl:14", "opencl:15"};

using OpenClBackends = std::array<Backend, kMostOpenClDevices>;

template <size_t... kIndices>
constexpr OpenClBackends number_backends(std::index_sequence<kIndices...>) {
  return {make_opencl_backend(
      kOpenClNames[kIndices], [] { return open_opencl(kIndices); }, [] { return opencl_level_at(kIndices); },
      [] { return describe_opencl_at(kIndices); })...};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::optional<size_t> device_number(std::string_view wanted) {
  size_t number = 0;
  const auto [end, failure] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (failure != std::errc() || end != wanted.data() + wanted.size()) return std::nullopt;
  return number;
}

std::optional<size_t> device_called(std::string_view wanted) {
  const Result<OpenClMachine>& found = opencl_machine();
  if (!found || wanted.empty()) return std::nullopt;
  for (const OpenClInfo& info : numbered_devices(*found)) {
    if (lower_case(info.name).find(lower_case(wanted)) != std::string::npos) return info.index;
  }
  return std::nullopt;
}

constexpr std::string_view kOpenClPrefix = "opencl:";

// ---------------------------------------------------------------- queues that programs bring

// A backend is functions without a state, so each link has functions of its own.
struct LinkSlot {
  std::mutex mutex;
  std::shared_ptr<OpenClDevice> device;  // null: free
};
LinkSlot& link_slot(size_t index) {
  static auto* const slots = new std::array<LinkSlot, kMostOpenClDevices>();
  return (*slots)[index];
}

Result<std::shared_ptr<Device>> open_link(size_t index) {
  LinkSlot& slot = link_slot(index);
  const std::lock_guard lock(slot.mutex);
  if (slot.device != nullptr) return std::shared_ptr<Device>(slot.device);
  return make_error(ErrorCode::kInvalidArgument, "OpenCL: the link to the caller's queue was closed: keep it open");
}

std::string_view link_level(size_t index) {
  LinkSlot& slot = link_slot(index);
  const std::lock_guard lock(slot.mutex);
  return slot.device != nullptr ? slot.device->info().kind() : "none";
}

template <size_t... kIndices>
constexpr OpenClBackends link_backends(std::index_sequence<kIndices...>) {
  return {make_opencl_backend(
      "opencl", [] { return open_link(kIndices); }, [] { return link_level(kIndices); }, nullptr)...};
}
const OpenClBackends& all_links() {
  static const OpenClBackends backends = link_backends(std::make_index_sequence<kMostOpenClDevices>());
  return backends;
}

}  // namespace

constinit const Backend kOpenClBackend =
    make_opencl_backend("opencl", open_first_opencl, opencl_level, describe_opencl);

const Backend* find_opencl_backend(std::string_view name) {
  static const OpenClBackends backends = number_backends(std::make_index_sequence<kMostOpenClDevices>());
  if (!name.starts_with(kOpenClPrefix)) return nullptr;
  const std::string_view wanted = name.substr(kOpenClPrefix.size());
  std::optional<size_t> index = device_number(wanted);
  if (!index) index = device_called(wanted);
  return index && *index < backends.size() ? &backends[*index] : nullptr;
}

Error no_opencl_device(std::string_view name) {
  const Result<OpenClMachine>& found = opencl_machine();
  if (!found) return found.error();
  std::vector<std::string> names;
  for (const OpenClInfo& info : numbered_devices(*found)) {
    names.push_back(fmt::format("opencl:{} ({})", info.index, info.name));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("OpenCL: there is no device \"{}\"; there are: {}",
                                name.substr(std::min(name.size(), kOpenClPrefix.size())), fmt::join(names, ", ")));
}

void set_opencl_cache(std::string folder) { opencl::ProgramCache::set_current(std::move(folder)); }

Result<OpenClLink> OpenClLink::open(_cl_command_queue* queue) {
  if (queue == nullptr) return make_error(ErrorCode::kInvalidArgument, "OpenCL: the caller's queue is null");
  BALLAST_TRY(std::shared_ptr<const Driver> driver, Driver::system());
  BALLAST_TRY(std::shared_ptr<OpenClDevice> device, OpenClDevice::open_on(std::move(driver), queue));
  for (size_t i = 0; i < all_links().size(); ++i) {
    LinkSlot& slot = link_slot(i);
    const std::lock_guard lock(slot.mutex);
    if (slot.device != nullptr) continue;
    slot.device = std::move(device);
    return OpenClLink(&all_links()[i]);
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("OpenCL: there are {} links to callers' queues already: close one", all_links().size()));
}

OpenClLink::~OpenClLink() {
  if (backend_ == nullptr) return;
  LinkSlot& slot = link_slot(static_cast<size_t>(backend_ - all_links().data()));
  const std::lock_guard lock(slot.mutex);
  slot.device = nullptr;
}

}  // namespace ballast
