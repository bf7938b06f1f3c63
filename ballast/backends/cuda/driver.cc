#include "ballast/backends/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace ballast::cuda {

namespace {

// What nvcc 13.0 compiles needs a driver of the same major version; PTX needs the same version or a newer one.
constexpr int kOldestVersion = 13000;

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// By their numbers in cuda.h, which never change.
std::string_view driver_advice(DriverCode code) {
  switch (code) {
    case kDriverOutOfMemory:
      return "use a smaller model, quantised weights, a shorter context or another device, or compute with the backend "
             "\"cpu\"";
    case kDriverNoDevice: return "there is no NVIDIA GPU that this process may use; see CUDA_VISIBLE_DEVICES";
    case kDriverNoBinary:
    case kDriverUnsupportedPtx: return "this GPU is not among those that the kernels were compiled for";
    case kDriverMismatch:
      return "the driver's library and its kernel module are of different versions: restart the machine";
    case 3:  // not initialised
    case 4:  // deinitialised
      return "nvidia-smi tells whether the driver works; CUDA cannot be used after fork(): start processes with spawn";
    case 999:
      return "nvidia-smi tells whether the driver works; after an update of the driver the machine needs a restart";
    case 46:
      return "another process has the device for itself: wait for it, use another device, or compute with the backend "
             "\"cpu\"";
    case 214:  // an error of the memory that could not be corrected
    case 700:
    case 702:
    case 710:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719: return "the device is lost to this process: start it again, and report the error if it comes back";
    default: return {};
  }
}

ErrorCode error_code(DriverCode code) {
  switch (code) {
    case kDriverOutOfMemory: return ErrorCode::kOutOfMemory;
    case kDriverNoDevice:
    case kDriverNoBinary:
    case kDriverUnsupportedPtx:
    case kDriverMismatch: return ErrorCode::kUnsupported;
    default: return ErrorCode::kIo;
  }
}

}  // namespace

Driver::~Driver() { dlclose(library_); }

Error Driver::error(DriverCode code, std::string_view doing) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name != nullptr) error_name(code, &name);
  if (error_text != nullptr) error_text(code, &text);
  const std::string_view advice = driver_advice(code);
  return make_error(
      error_code(code),
      fmt::format("CUDA: {}: {} ({}){}{}", doing, name != nullptr ? name : fmt::format("error {}", code),
                  text != nullptr ? text : "the driver has no text for it", advice.empty() ? "" : ": ", advice));
}

Status Driver::resolve(const std::string& library) {
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* symbol) {
    void* const address = dlsym(library_, symbol);
    if (address == nullptr && missing == nullptr) missing = symbol;
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
  };
#define BALLAST_CUDA_FIND(member, symbol, parameters) find(member, symbol);
  BALLAST_CUDA_DRIVER(BALLAST_CUDA_FIND)
#undef BALLAST_CUDA_FIND
  parameter_info = reinterpret_cast<decltype(parameter_info)>(dlsym(library_, "cuFuncGetParamInfo"));
  if (missing == nullptr) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("CUDA: {} has no {}, so it is too old or not NVIDIA's: update the NVIDIA driver to one "
                                "for CUDA {} or newer",
                                library, missing, version_text(kOldestVersion)));
}

Status Driver::start() {
  BALLAST_CHECK(check(init(0), "starting the driver"));
  BALLAST_CHECK(check(driver_version(&version_), "asking for the driver's version"));
  if (version_ >= kOldestVersion) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("CUDA: the NVIDIA driver is too old: it supports CUDA {}, and CUDA {} is needed; update "
                  "the driver to version 580 or newer",
                  version_text(version_), version_text(kOldestVersion)));
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  // Its threads may outlive a start that failed, so its code stays.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("CUDA: no NVIDIA driver was found ({}): install one, or compute with another backend",
                                  reason != nullptr ? reason : library.c_str()));
  }
  std::shared_ptr<Driver> driver(new Driver(handle));
  BALLAST_CHECK(driver->resolve(library));
  BALLAST_CHECK(driver->start());
  return std::shared_ptr<const Driver>(std::move(driver));
}

Result<std::shared_ptr<const Driver>> Driver::system() {
  // Never closed: threads of the driver run until the process ends.
  static const auto* const opened = new Result<std::shared_ptr<const Driver>>(open("libcuda.so.1"));
  return *opened;
}

}  // namespace ballast::cuda
