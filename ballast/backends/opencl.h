// The backend `opencl`: GPUs, CPUs and accelerators of any vendor, through the OpenCL library that the machine has; and
// command queues and buffers that a program brings.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ballast/device/tensor.h"
#include "ballast/ops/backend.h"

// As Khronos' headers name them: cl_command_queue is a _cl_command_queue*, cl_mem a _cl_mem*. Ballast needs no headers
// of OpenCL, and programs that have them pass their handles as they are.
struct _cl_command_queue;
struct _cl_mem;

namespace ballast {

// Computes on the first GPU, or where there is none on the first accelerator, or else CPU. It opens where there are an
// OpenCL library and such a device; find_devices says what is missing.
extern const Backend kOpenClBackend;
// "opencl:0", "opencl:1", ...: the same on a device by its number; "opencl:iris": on the first whose name has that in
// it, in letters of either case. Null for other names, and where there is no such device. Looks for devices.
const Backend* find_opencl_backend(std::string_view name);
// Which devices there are instead of the one that `name` asks for.
Error no_opencl_device(std::string_view name);

// A folder of the caller's where compiled kernels are kept for the next process, 256 MiB at most. It must exist; files
// in it end in .opencl, and may be removed at any time. Empty, which is the default: none are kept. Any thread.
void set_opencl_cache(std::string folder);

// A program's command queue as a backend: everything that is computed is put into that queue, behind what the program
// has put there, and the program's next commands come behind it. Nothing waits but reading results (Tensor::read) and
// uploading parameters. The queue must keep order. One thread at a time may use it, the program's own commands
// included.
class OpenClLink {
 public:
  // Retains the queue and its context. kInvalidArgument for a queue that is null or runs commands out of order, and
  // where the process has 16 links already.
  static Result<OpenClLink> open(_cl_command_queue* queue);
  OpenClLink(OpenClLink&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  OpenClLink& operator=(OpenClLink&& other) noexcept {
    std::swap(backend_, other.backend_);
    return *this;
  }
  // Whatever was opened on the backend must have gone before.
  ~OpenClLink();

  // For LoadOptions::own_backend and Execution::open.
  const Backend& backend() const { return *backend_; }

 private:
  explicit OpenClLink(const Backend* backend) : backend_(backend) {}

  const Backend* backend_;
};

// The elements that lie in `buffer`, without copying them: the tensor retains the buffer, whose context must be that of
// the workspace's queue. The program must not change them while the tensor is in use. kInvalidArgument where the
// workspace is not of an OpenCL device, or the buffer too small or of another context.
Result<Tensor> tensor_on_buffer(Workspace& workspace, _cl_mem* buffer, const Dims& dims, DType dtype = DType::kF32);
// Where a tensor's elements lie, from the buffer's beginning: valid as long as the tensor. Null where the tensor is
// empty or not of an OpenCL device. What computes them may still be in its queue.
_cl_mem* buffer_of(const Tensor& tensor);

}  // namespace ballast
