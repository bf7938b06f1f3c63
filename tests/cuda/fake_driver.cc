// Stands in for NVIDIA's driver: a library with the functions that ballast/backends/cuda/driver.h uses, over memory of
// the host. Work is done as late as the real driver may do it, when somebody waits: whoever changes a source too early,
// or reads a target too soon, is found out. Kernels are counted and do nothing.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ballast/backends/cuda/driver.h"
#include "tests/cuda/fake_settings.h"

namespace {

using Settings = ballast::testing::FakeCuda;
constexpr int kSuccess = 0, kInvalid = 1, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500, kLost = 719;

Settings settings;
bool is_lost = false;
std::vector<std::function<void()>> waiting;
std::map<void*, size_t> device_blocks, host_blocks;

int next_call() {
  if (is_lost) return kLost;
  if (++settings.calls != settings.failing_call) return kSuccess;
  is_lost = settings.failing_code == kLost;
  return settings.failing_code;
}

void do_waiting() {
  for (const auto& work : waiting) work();
  waiting.clear();
}

int allocate(std::map<void*, size_t>& blocks, uint64_t& out, void** address, size_t bytes) {
  *address = std::malloc(bytes);
  if (*address == nullptr) return kOutOfMemory;
  std::memset(*address, 0xA5, bytes);
  blocks[*address] = bytes;
  out += bytes;
  return kSuccess;
}

int give_back(std::map<void*, size_t>& blocks, uint64_t& out, void* address) {
  do_waiting();  // the real driver waits too
  const auto block = blocks.find(address);
  if (block == blocks.end()) return kInvalid;
  out -= block->second;
  blocks.erase(block);
  std::free(address);
  return kSuccess;
}

// Whether the range lies in one of them.
bool is_in(const std::map<void*, size_t>& blocks, const void* address, size_t bytes) {
  auto block = blocks.upper_bound(const_cast<void*>(address));
  if (block == blocks.begin()) return false;
  --block;
  const auto* const begin = static_cast<const char*>(block->first);
  return static_cast<const char*>(address) + bytes <= begin + block->second;
}

bool is_on_device(const void* address, size_t bytes) { return is_in(device_blocks, address, bytes); }

void* at(unsigned long long address) { return reinterpret_cast<void*>(address); }  // NOLINT

}  // namespace

#define CALL()                                       \
  if (const int failed = next_call(); failed != 0) { \
    return failed;                                   \
  }

extern "C" {

Settings* fake_cuda_settings() { return &settings; }
void fake_cuda_reset() {
  do_waiting();
  settings = Settings{.bytes_out = settings.bytes_out,
                      .host_bytes_out = settings.host_bytes_out,
                      .streams_out = settings.streams_out,
                      .events_out = settings.events_out};
  is_lost = false;
}

int cuInit(unsigned) {
  CALL();
  return settings.devices == 0 ? kNoDevice : kSuccess;
}
int cuDriverGetVersion(int* version) {
  CALL();
  *version = settings.version;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  CALL();
  *count = settings.devices;
  return kSuccess;
}
int cuDeviceGet(int* device, int index) {
  CALL();
  *device = index;
  return kSuccess;
}
int cuDeviceGetName(char* name, int size, int) {
  CALL();
  std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return kSuccess;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  CALL();
  *bytes = settings.memory;
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  CALL();
  *value = attribute == 75 ? settings.major : attribute == 76 ? settings.minor : attribute == 16 ? 132 : 232448;
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  CALL();
  *context = &settings;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
int cuCtxSetCurrent(void*) { return kSuccess; }
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = settings.memory - settings.bytes_out;
  *total = settings.memory;
  return kSuccess;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  CALL();
  if (bytes == 0) return kInvalid;
  if (settings.bytes_out + bytes > settings.memory) return kOutOfMemory;
  void* made = nullptr;
  const int code = allocate(device_blocks, settings.bytes_out, &made, bytes);
  *address = reinterpret_cast<unsigned long long>(made);  // NOLINT
  return code;
}
int cuMemFree_v2(unsigned long long address) { return give_back(device_blocks, settings.bytes_out, at(address)); }
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  CALL();
  return allocate(host_blocks, settings.host_bytes_out, address, bytes);
}
int cuMemFreeHost(void* address) { return give_back(host_blocks, settings.host_bytes_out, address); }

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void*) {
  CALL();
  if (!is_on_device(at(to), bytes)) return kInvalid;
  settings.uploaded += bytes;
  waiting.emplace_back([=] { std::memcpy(at(to), from, bytes); });
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void*) {
  CALL();
  if (!is_on_device(at(from), bytes)) return kInvalid;
  waiting.emplace_back([=] { std::memcpy(to, at(from), bytes); });
  // To memory that is not pinned, the real one copies at once.
  if (!is_in(host_blocks, to, bytes)) do_waiting();
  return kSuccess;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void*) {
  CALL();
  if (!is_on_device(at(to), bytes) || !is_on_device(at(from), bytes)) return kInvalid;
  waiting.emplace_back([=] { std::memcpy(at(to), at(from), bytes); });
  return kSuccess;
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void*) {
  CALL();
  if (!is_on_device(at(to), bytes)) return kInvalid;
  waiting.emplace_back([=] { std::memset(at(to), value, bytes); });
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned) {
  CALL();
  *stream = &waiting;
  ++settings.streams_out;
  return kSuccess;
}
int cuStreamDestroy_v2(void*) {
  --settings.streams_out;
  return kSuccess;
}
int cuStreamSynchronize(void*) {
  do_waiting();
  CALL();
  return kSuccess;
}
int cuEventCreate(void** event, unsigned) {
  CALL();
  *event = &waiting;
  ++settings.events_out;
  return kSuccess;
}
int cuEventDestroy_v2(void*) {
  --settings.events_out;
  return kSuccess;
}
int cuEventRecord(void*, void*) {
  CALL();
  return kSuccess;
}
int cuEventSynchronize(void*) {
  do_waiting();
  CALL();
  return kSuccess;
}

int cuModuleLoadData(void** module, const void*) {
  CALL();
  *module = &settings;
  return kSuccess;
}
int cuModuleUnload(void*) { return kSuccess; }
int cuModuleGetFunction(void** function, void*, const char* name) {
  CALL();
  static std::map<std::string, std::string> functions;
  *function = &functions.try_emplace(name, name).first->second;
  return kSuccess;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  CALL();
  constexpr int kPtxVersion = 5;
  if (attribute != kPtxVersion) return kInvalid;
  *value = settings.compiled_for;
  return kSuccess;
}
int cuFuncSetAttribute(void*, int, int) {
  CALL();
  return kSuccess;
}
// Only of fill_f32(float* y, float value, uint64_t count) they are known.
int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  constexpr size_t kSizes[] = {8, 4, 8};
  if (*static_cast<std::string*>(function) != "fill_f32" || index >= 3) return kNotFound;
  *offset = 8 * index;
  *bytes = kSizes[index];
  return kSuccess;
}
int cuLaunchKernelEx(const ballast::cuda::DriverLaunch* launch, void*, void**, void**) {
  CALL();
  ++settings.launches;
  for (unsigned i = 0; i < launch->attribute_count; ++i) {
    const auto& attribute = launch->attributes[i];
    if (attribute.kind == ballast::cuda::kDriverMayOverlap && attribute.value != 0) ++settings.early_launches;
  }
  return kSuccess;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == kLost ? "CUDA_ERROR_LAUNCH_FAILED" : nullptr;
  return *name != nullptr ? kSuccess : kInvalid;
}
int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory" : code == kLost ? "unspecified launch failure" : nullptr;
  return *text != nullptr ? kSuccess : kInvalid;
}

}  // extern "C"
