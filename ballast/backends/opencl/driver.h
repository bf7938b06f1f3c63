// The OpenCL library that a machine has, opened when it is first needed: nothing is linked with it and nothing built
// with its headers. Declarations are our own, of the few functions of OpenCL 1.2 that are used; every later version has
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

// As Khronos' headers name them, so that a program's handles are these.
struct _cl_platform_id;
struct _cl_device_id;
struct _cl_context;
struct _cl_command_queue;
struct _cl_mem;
struct _cl_program;
struct _cl_kernel;
struct _cl_event;

namespace ballast::opencl {

using DriverCode = int32_t;
using DriverPlatform = _cl_platform_id*;
using DriverDevice = _cl_device_id*;
using DriverContext = _cl_context*;
using DriverQueue = _cl_command_queue*;
using DriverMemory = _cl_mem*;
using DriverProgram = _cl_program*;
using DriverKernel = _cl_kernel*;
using DriverEvent = _cl_event*;
using DriverBits = uint64_t;  // cl_bitfield and cl_properties

// By their numbers in cl.h, which never change.
inline constexpr DriverCode kDriverSuccess = 0, kDriverNoDevice = -1, kDriverNotAvailable = -2, kDriverNoCompiler = -3,
                            kDriverNoMemory = -4, kDriverOutOfResources = -5, kDriverOutOfHostMemory = -6,
                            kDriverBuildFailed = -11, kDriverInvalidValue = -30, kDriverInvalidQueue = -36,
                            kDriverInvalidBinary = -42, kDriverInvalidKernelName = -46, kDriverInvalidBufferSize = -61,
                            kDriverNoPlatform = -1001;
inline constexpr DriverBits kDriverAnyDevice = 0xFFFFFFFF, kDriverCpu = 1 << 1, kDriverGpu = 1 << 2,
                            kDriverAccelerator = 1 << 3;

using DriverNotice = void (*)(const char* text, const void* bytes, size_t size, void* user);
using DriverBuilt = void (*)(DriverProgram program, void* user);

// X(member, symbol, result, parameters): every function that is called.
#define BALLAST_OPENCL_DRIVER(X)                                                                                      \
  X(platform_ids, "clGetPlatformIDs", DriverCode, (uint32_t room, DriverPlatform * platforms, uint32_t * count))      \
  X(platform_info, "clGetPlatformInfo", DriverCode,                                                                   \
    (DriverPlatform platform, uint32_t what, size_t room, void* value, size_t* size))                                 \
  X(device_ids, "clGetDeviceIDs", DriverCode,                                                                         \
    (DriverPlatform platform, DriverBits types, uint32_t room, DriverDevice * devices, uint32_t * count))             \
  X(device_info, "clGetDeviceInfo", DriverCode,                                                                       \
    (DriverDevice device, uint32_t what, size_t room, void* value, size_t* size))                                     \
  X(context_create, "clCreateContext", DriverContext,                                                                 \
    (const intptr_t* properties, uint32_t count, const DriverDevice* devices, DriverNotice notice, void* user,        \
     DriverCode* code))                                                                                               \
  X(context_retain, "clRetainContext", DriverCode, (DriverContext context))                                           \
  X(context_release, "clReleaseContext", DriverCode, (DriverContext context))                                         \
  X(queue_create, "clCreateCommandQueue", DriverQueue,                                                                \
    (DriverContext context, DriverDevice device, DriverBits properties, DriverCode * code))                           \
  X(queue_retain, "clRetainCommandQueue", DriverCode, (DriverQueue queue))                                            \
  X(queue_release, "clReleaseCommandQueue", DriverCode, (DriverQueue queue))                                          \
  X(queue_info, "clGetCommandQueueInfo", DriverCode,                                                                  \
    (DriverQueue queue, uint32_t what, size_t room, void* value, size_t* size))                                       \
  X(memory_create, "clCreateBuffer", DriverMemory,                                                                    \
    (DriverContext context, DriverBits flags, size_t bytes, void* host, DriverCode* code))                            \
  X(memory_retain, "clRetainMemObject", DriverCode, (DriverMemory memory))                                            \
  X(memory_release, "clReleaseMemObject", DriverCode, (DriverMemory memory))                                          \
  X(memory_info, "clGetMemObjectInfo", DriverCode,                                                                    \
    (DriverMemory memory, uint32_t what, size_t room, void* value, size_t* size))                                     \
  X(program_from_source, "clCreateProgramWithSource", DriverProgram,                                                  \
    (DriverContext context, uint32_t count, const char** texts, const size_t* sizes, DriverCode* code))               \
  X(program_from_binary, "clCreateProgramWithBinary", DriverProgram,                                                  \
    (DriverContext context, uint32_t count, const DriverDevice* devices, const size_t* sizes,                         \
     const unsigned char** binaries, DriverCode* codes, DriverCode* code))                                            \
  X(program_build, "clBuildProgram", DriverCode,                                                                      \
    (DriverProgram program, uint32_t count, const DriverDevice* devices, const char* options, DriverBuilt built,      \
     void* user))                                                                                                     \
  X(program_build_info, "clGetProgramBuildInfo", DriverCode,                                                          \
    (DriverProgram program, DriverDevice device, uint32_t what, size_t room, void* value, size_t* size))              \
  X(program_info, "clGetProgramInfo", DriverCode,                                                                     \
    (DriverProgram program, uint32_t what, size_t room, void* value, size_t* size))                                   \
  X(program_release, "clReleaseProgram", DriverCode, (DriverProgram program))                                         \
  X(kernel_create, "clCreateKernel", DriverKernel, (DriverProgram program, const char* name, DriverCode* code))       \
  X(kernel_release, "clReleaseKernel", DriverCode, (DriverKernel kernel))                                             \
  X(kernel_set, "clSetKernelArg", DriverCode, (DriverKernel kernel, uint32_t index, size_t bytes, const void* value)) \
  X(launch, "clEnqueueNDRangeKernel", DriverCode,                                                                     \
    (DriverQueue queue, DriverKernel kernel, uint32_t rank, const size_t* offsets, const size_t* global,              \
     const size_t* local, uint32_t waits, const DriverEvent* wait_for, DriverEvent* event))                           \
  X(read, "clEnqueueReadBuffer", DriverCode,                                                                          \
    (DriverQueue queue, DriverMemory from, uint32_t blocks, size_t offset, size_t bytes, void* to, uint32_t waits,    \
     const DriverEvent* wait_for, DriverEvent* event))                                                                \
  X(write, "clEnqueueWriteBuffer", DriverCode,                                                                        \
    (DriverQueue queue, DriverMemory to, uint32_t blocks, size_t offset, size_t bytes, const void* from,              \
     uint32_t waits, const DriverEvent* wait_for, DriverEvent* event))                                                \
  X(copy, "clEnqueueCopyBuffer", DriverCode,                                                                          \
    (DriverQueue queue, DriverMemory from, DriverMemory to, size_t from_offset, size_t to_offset, size_t bytes,       \
     uint32_t waits, const DriverEvent* wait_for, DriverEvent* event))                                                \
  X(fill, "clEnqueueFillBuffer", DriverCode,                                                                          \
    (DriverQueue queue, DriverMemory to, const void* pattern, size_t pattern_bytes, size_t offset, size_t bytes,      \
     uint32_t waits, const DriverEvent* wait_for, DriverEvent* event))                                                \
  X(flush, "clFlush", DriverCode, (DriverQueue queue))                                                                \
  X(finish, "clFinish", DriverCode, (DriverQueue queue))

// Any thread.
class Driver {
 public:
  // kUnsupported where the library is missing or too old.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library);
  // Of this machine: its ICD loader, which finds every vendor's devices.
  static Result<std::shared_ptr<const Driver>> system();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

#define BALLAST_OPENCL_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  BALLAST_OPENCL_DRIVER(BALLAST_OPENCL_MEMBER)
#undef BALLAST_OPENCL_MEMBER

  // What went wrong while `doing`, and what to do about it.
  static Error error(DriverCode code, std::string_view doing);
  static Status check(DriverCode code, std::string_view doing) {
    if (code == kDriverSuccess) return {};
    return error(code, doing);
  }

 private:
  explicit Driver(void* library) : library_(library) {}
  Status resolve(const std::string& library);

  void* const library_;
};

}  // namespace ballast::opencl
