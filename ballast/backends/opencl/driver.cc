#include "ballast/backends/opencl/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace ballast::opencl {

namespace {

std::string_view code_name(DriverCode code) {
  switch (code) {
    case kDriverNoDevice: return "CL_DEVICE_NOT_FOUND";
    case kDriverNotAvailable: return "CL_DEVICE_NOT_AVAILABLE";
    case kDriverNoCompiler: return "CL_COMPILER_NOT_AVAILABLE";
    case kDriverNoMemory: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case kDriverOutOfResources: return "CL_OUT_OF_RESOURCES";
    case kDriverOutOfHostMemory: return "CL_OUT_OF_HOST_MEMORY";
    case kDriverBuildFailed: return "CL_BUILD_PROGRAM_FAILURE";
    case -14: return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    case kDriverInvalidValue: return "CL_INVALID_VALUE";
    case -34: return "CL_INVALID_CONTEXT";
    case kDriverInvalidQueue: return "CL_INVALID_COMMAND_QUEUE";
    case -38: return "CL_INVALID_MEM_OBJECT";
    case kDriverInvalidBinary: return "CL_INVALID_BINARY";
    case kDriverInvalidKernelName: return "CL_INVALID_KERNEL_NAME";
    case -51: return "CL_INVALID_ARG_SIZE";
    case -52: return "CL_INVALID_KERNEL_ARGS";
    case -54: return "CL_INVALID_WORK_GROUP_SIZE";
    case kDriverInvalidBufferSize: return "CL_INVALID_BUFFER_SIZE";
    case kDriverNoPlatform: return "CL_PLATFORM_NOT_FOUND_KHR";
    default: return {};
  }
}

std::string_view code_advice(DriverCode code) {
  switch (code) {
    case kDriverNoMemory:
    case kDriverOutOfHostMemory:
    case kDriverInvalidBufferSize:
      return "use a smaller model, quantised weights, a shorter context or another device, or compute with the backend "
             "\"cpu\"";
    case kDriverNoDevice:
    case kDriverNoPlatform:
      return "install the OpenCL driver of your device (pocl-opencl-icd is one for CPUs), or compute with another "
             "backend";
    case kDriverNoCompiler: return "this driver cannot compile kernels: use another device";
    case kDriverOutOfResources:
    case -14:
    case kDriverNotAvailable:
    case -34:
    case kDriverInvalidQueue:
      return "the device ran out of resources or is lost to this process: start it again, with a smaller model if the "
             "error comes back";
    default: return {};
  }
}

ErrorCode error_code_of(DriverCode code) {
  switch (code) {
    case kDriverNoMemory:
    case kDriverOutOfHostMemory:
    case kDriverInvalidBufferSize: return ErrorCode::kOutOfMemory;
    case kDriverNoDevice:
    case kDriverNoPlatform:
    case kDriverNoCompiler:
    case kDriverBuildFailed: return ErrorCode::kUnsupported;
    default: return ErrorCode::kIo;
  }
}

}  // namespace

Driver::~Driver() { dlclose(library_); }

Error Driver::error(DriverCode code, std::string_view doing) {
  const std::string_view name = code_name(code), advice = code_advice(code);
  return make_error(error_code_of(code),
                    fmt::format("OpenCL: {}: {}{}{}", doing, name.empty() ? fmt::format("error {}", code) : name,
                                advice.empty() ? "" : ": ", advice));
}

Status Driver::resolve(const std::string& library) {
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* symbol) {
    void* const address = dlsym(library_, symbol);
    if (address == nullptr && missing == nullptr) missing = symbol;
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
  };
#define BALLAST_OPENCL_FIND(member, symbol, result, parameters) find(member, symbol);
  BALLAST_OPENCL_DRIVER(BALLAST_OPENCL_FIND)
#undef BALLAST_OPENCL_FIND
  if (missing == nullptr) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("OpenCL: {} has no {}: install an OpenCL library of version 1.2 or newer "
                                "(ocl-icd-libopencl1), or compute with another backend",
                                library, missing));
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  // Threads of drivers may outlive whoever opened them, so the code stays.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("OpenCL: no library was found ({}): install one (ocl-icd-libopencl1) and the driver of "
                    "your device, or compute with another backend",
                    reason != nullptr ? reason : library.c_str()));
  }
  std::shared_ptr<Driver> driver(new Driver(handle));
  BALLAST_CHECK(driver->resolve(library));
  return std::shared_ptr<const Driver>(std::move(driver));
}

Result<std::shared_ptr<const Driver>> Driver::system() {
  // Never closed: threads of drivers run until the process ends.
  static const auto* const opened = new Result<std::shared_ptr<const Driver>>(open("libOpenCL.so.1"));
  return *opened;
}

}  // namespace ballast::opencl
