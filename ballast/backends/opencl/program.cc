// Programs are compiled when one of their kernels is first wanted, and kept: in the device, and on disk where the
// program has named a folder (program_cache.h).
#include <fmt/format.h>

#include <algorithm>

#include "ballast/backends/opencl/device.h"
#include "ballast/backends/opencl/program_cache.h"
#include "ballast/backends/opencl/sources.h"

namespace ballast::opencl {

namespace {

// cl_program_info and cl_program_build_info.
constexpr uint32_t kBinarySizes = 0x1165, kBinaries = 0x1166, kBuildLog = 0x1183;
constexpr size_t kMostLog = 4000;

std::string_view source_of(std::string_view program) {
  const auto sources = kernel_sources();
  const auto found = std::ranges::find(sources, program, &KernelSource::program);
  return found == sources.end() ? std::string_view() : found->text;
}

std::string options_for(const DeviceInfo& info, const Kernel& kernel) {
  std::string options = "-cl-std=CL1.2";
  if (info.divides_exactly) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  if (kernel.variant >= 0) options += fmt::format(" -DBALLAST_WEIGHT_TYPE={}", kernel.variant);
  return options;
}

std::string build_log(const Driver& driver, DriverProgram program, DriverDevice device) {
  size_t size = 0;
  if (driver.program_build_info(program, device, kBuildLog, 0, nullptr, &size) != kDriverSuccess) return {};
  std::string log(size, '\0');
  if (driver.program_build_info(program, device, kBuildLog, size, log.data(), nullptr) != kDriverSuccess) return {};
  log.resize(std::min(log.find('\0'), log.size()));
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.pop_back();
  if (log.size() > kMostLog) log = log.substr(0, kMostLog) + " ...";
  return log;
}

std::vector<std::byte> binary_of(const Driver& driver, DriverProgram program) {
  size_t size = 0;
  if (driver.program_info(program, kBinarySizes, sizeof(size), &size, nullptr) != kDriverSuccess) return {};
  if (size == 0 || size > ProgramCache::kMostFileBytes) return {};
  std::vector<std::byte> binary(size);
  unsigned char* place = reinterpret_cast<unsigned char*>(binary.data());
  if (driver.program_info(program, kBinaries, sizeof(place), static_cast<void*>(&place), nullptr) != kDriverSuccess) {
    return {};
  }
  return binary;
}

// Null where the driver does not take it any more.
DriverProgram from_binary(const Driver& driver, DriverContext context, DriverDevice device, ByteSpan binary,
                          const std::string& options) {
  const size_t size = binary.size();
  const auto* place = reinterpret_cast<const unsigned char*>(binary.data());
  DriverCode of_device = kDriverSuccess, code = kDriverSuccess;
  const DriverProgram program = driver.program_from_binary(context, 1, &device, &size, &place, &of_device, &code);
  if (code != kDriverSuccess) return nullptr;
  if (of_device == kDriverSuccess &&
      driver.program_build(program, 1, &device, options.c_str(), nullptr, nullptr) == kDriverSuccess) {
    return program;
  }
  driver.program_release(program);
  return nullptr;
}

Result<DriverProgram> compile(const Driver& driver, DriverContext context, const DeviceInfo& info,
                              std::string_view name, const std::string& text, const std::string& options) {
  const char* const start = text.data();
  const char* texts[] = {start};
  const size_t size = text.size();
  DriverCode code = kDriverSuccess;
  const DriverProgram program = driver.program_from_source(context, 1, texts, &size, &code);
  BALLAST_CHECK(Driver::check(code, fmt::format("reading the kernels \"{}\"", name)));
  code = driver.program_build(program, 1, &info.device, options.c_str(), nullptr, nullptr);
  if (code == kDriverSuccess) return program;
  const std::string log = build_log(driver, program, info.device);
  driver.program_release(program);
  Error error = Driver::error(code, fmt::format("compiling the kernels \"{}\" for {} (driver {}, {})", name, info.name,
                                                info.driver_version, options));
  error.message += ": update the driver, or use another device; its compiler says: " + (log.empty() ? "nothing" : log);
  return error;
}

}  // namespace

Result<DriverProgram> OpenClDevice::program(const Kernel& kernel) {
  const std::string name = fmt::format("{}/{}", kernel.program, kernel.variant);
  if (const auto known = programs_.find(name); known != programs_.end()) return known->second;
  const std::string text = std::string(source_of("common")) + std::string(source_of(kernel.program));
  const std::string options = options_for(info_, kernel);
  const std::string key =
      program_key({info_.platform, info_.name, info_.driver_version, info_.device_version}, text, options);
  const ProgramCache cache = ProgramCache::current();
  if (const std::vector<std::byte> kept = cache.read(key); !kept.empty()) {
    const DriverProgram program = from_binary(*driver_, context_, info_.device, kept, options);
    if (program != nullptr) return programs_.emplace(name, program).first->second;
  }
  BALLAST_TRY(const DriverProgram program, compile(*driver_, context_, info_, kernel.program, text, options));
  if (cache.is_on()) cache.write(key, binary_of(*driver_, program));
  return programs_.emplace(name, program).first->second;
}

Result<DriverKernel> OpenClDevice::function(const Kernel& kernel) {
  const std::string name = fmt::format("{}/{}/{}", kernel.program, kernel.variant, kernel.function);
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
  BALLAST_TRY(const DriverProgram program, this->program(kernel));
  DriverCode code = kDriverSuccess;
  const DriverKernel function = driver_->kernel_create(program, std::string(kernel.function).c_str(), &code);
  BALLAST_CHECK(Driver::check(code, fmt::format("looking for the kernel {}", kernel.function)));
  return kernels_.emplace(name, function).first->second;
}

Status OpenClDevice::launch(DriverQueue queue, const Kernel& kernel, const Grid& grid,
                            std::span<const Argument> arguments) {
  const std::lock_guard lock(mutex_);
  BALLAST_TRY(const DriverKernel function, this->function(kernel));
  uint32_t index = 0;
  for (const Argument& argument : arguments) {
    const DriverCode code = driver_->kernel_set(function, index, argument.bytes, argument.value);
    BALLAST_CHECK(Driver::check(code, fmt::format("setting argument {} of the kernel {}", index, kernel.function)));
    ++index;
  }
  const size_t global[] = {static_cast<size_t>(grid.x * kGroupSize), static_cast<size_t>(grid.y),
                           static_cast<size_t>(grid.z)};
  const size_t local[] = {kGroupSize, 1, 1};
  return Driver::check(driver_->launch(queue, function, 3, nullptr, global, local, 0, nullptr, nullptr),
                       fmt::format("launching the kernel {}", kernel.function));
}

}  // namespace ballast::opencl
