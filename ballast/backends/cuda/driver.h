// NVIDIA's driver, opened when it is first needed: the library is linked with nothing of CUDA and built without its
// headers. Declarations are our own, of the few functions that are used, as libcuda.so.1 has had them since CUDA 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cuda {

// CUresult and the enumerations of CUDA are ints; handles point to what only the driver knows.
using DriverCode = int;
using DriverDevice = int;
using DriverAddress = unsigned long long;  // CUdeviceptr
struct DriverContextTag;
struct DriverStreamTag;
struct DriverEventTag;
struct DriverModuleTag;
struct DriverFunctionTag;
using DriverContext = DriverContextTag*;
using DriverStream = DriverStreamTag*;
using DriverEvent = DriverEventTag*;
using DriverModule = DriverModuleTag*;
using DriverFunction = DriverFunctionTag*;

// CUlaunchAttribute and CUlaunchConfig.
struct DriverLaunchAttribute {
  int kind = 0;
  alignas(8) int value = 0;
  char others[60] = {};
};
static_assert(sizeof(DriverLaunchAttribute) == 72);
struct DriverLaunch {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
  DriverStream stream = nullptr;
  const DriverLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: 1 lets a kernel start before the one in front of it has ended.
inline constexpr int kDriverMayOverlap = 6;

inline constexpr DriverCode kDriverSuccess = 0, kDriverInvalidValue = 1, kDriverOutOfMemory = 2, kDriverNoDevice = 100,
                            kDriverNoBinary = 209, kDriverUnsupportedPtx = 222, kDriverNotFound = 500,
                            kDriverNotReady = 600, kDriverMismatch = 803;

// X(member, symbol, parameters): every function that is called, in the version that its symbol names.
#define BALLAST_CUDA_DRIVER(X)                                                                                         \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(driver_version, "cuDriverGetVersion", (int* version))                                                              \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                    \
  X(device_get, "cuDeviceGet", (DriverDevice * device, int index))                                                     \
  X(device_name, "cuDeviceGetName", (char* name, int size, DriverDevice device))                                       \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, DriverDevice device))                                       \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DriverDevice device))                        \
  X(context_retain, "cuDevicePrimaryCtxRetain", (DriverContext * context, DriverDevice device))                        \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (DriverDevice device))                                            \
  X(context_set, "cuCtxSetCurrent", (DriverContext context))                                                           \
  X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                   \
  X(memory_allocate, "cuMemAlloc_v2", (DriverAddress * address, size_t bytes))                                         \
  X(memory_free, "cuMemFree_v2", (DriverAddress address))                                                              \
  X(host_allocate, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))                                   \
  X(host_free, "cuMemFreeHost", (void* address))                                                                       \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (DriverAddress to, const void* from, size_t bytes, DriverStream stream))          \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void* to, DriverAddress from, size_t bytes, DriverStream stream))               \
  X(copy, "cuMemcpyDtoDAsync_v2", (DriverAddress to, DriverAddress from, size_t bytes, DriverStream stream))           \
  X(fill, "cuMemsetD8Async", (DriverAddress to, unsigned char value, size_t bytes, DriverStream stream))               \
  X(stream_create, "cuStreamCreate", (DriverStream * stream, unsigned flags))                                          \
  X(stream_destroy, "cuStreamDestroy_v2", (DriverStream stream))                                                       \
  X(stream_finish, "cuStreamSynchronize", (DriverStream stream))                                                       \
  X(event_create, "cuEventCreate", (DriverEvent * event, unsigned flags))                                              \
  X(event_destroy, "cuEventDestroy_v2", (DriverEvent event))                                                           \
  X(event_record, "cuEventRecord", (DriverEvent event, DriverStream stream))                                           \
  X(event_finish, "cuEventSynchronize", (DriverEvent event))                                                           \
  X(module_load, "cuModuleLoadData", (DriverModule * module, const void* image))                                       \
  X(module_unload, "cuModuleUnload", (DriverModule module))                                                            \
  X(module_function, "cuModuleGetFunction", (DriverFunction * function, DriverModule module, const char* name))        \
  X(function_get, "cuFuncGetAttribute", (int* value, int attribute, DriverFunction function))                          \
  X(function_set, "cuFuncSetAttribute", (DriverFunction function, int attribute, int value))                           \
  X(launch, "cuLaunchKernelEx", (const DriverLaunch* launch, DriverFunction function, void** arguments, void** extra)) \
  X(error_name, "cuGetErrorName", (DriverCode code, const char** name))                                                \
  X(error_text, "cuGetErrorString", (DriverCode code, const char** text))

class Driver {
 public:
  // The driver of this machine, opened once. kUnsupported says what is missing and what to do.
  static Result<std::shared_ptr<const Driver>> system();
  // Another library with the same functions, for tests.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // The CUDA version that it supports, 13000 for 13.0.
  int version() const { return version_; }

  // kOutOfMemory for a lack of memory, kUnsupported for a driver or a GPU that cannot do it, else kIo. The text has the
  // driver's own name for the error, and what to do.
  Error error(DriverCode code, std::string_view doing) const;
  Status check(DriverCode code, std::string_view doing) const {
    if (code == kDriverSuccess) return {};
    return error(code, doing);
  }

#define BALLAST_CUDA_MEMBER(member, symbol, parameters) DriverCode(*member) parameters = nullptr;
  BALLAST_CUDA_DRIVER(BALLAST_CUDA_MEMBER)
#undef BALLAST_CUDA_MEMBER
  // Since CUDA 12.4; null before: the offset and the size of a kernel's n-th parameter.
  DriverCode (*parameter_info)(DriverFunction function, size_t index, size_t* offset, size_t* bytes) = nullptr;

 private:
  explicit Driver(void* library) : library_(library) {}
  Status resolve(const std::string& library);
  Status start();

  void* library_;
  int version_ = 0;
};

}  // namespace ballast::cuda
