// All that computing takes, put together in one place: a backend, a queue of its device, memory, threads, and the
// implementations that functionals choose from.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/backends/backends.h"
#include "ballast/ops/context.h"
#include "ballast/ops/registry.h"

namespace ballast {

// One thread at a time. Tensors may outlive it.
class Execution {
 public:
  // The default backend where no name is given; kInvalidArgument where there is none of that name. `threads` 0: as many
  // as the machine has.
  static Result<std::shared_ptr<Execution>> open(std::string_view backend = {}, unsigned threads = 0);
  // A backend of any kind, which must outlive this.
  static Result<std::shared_ptr<Execution>> open(const Backend& backend, unsigned threads = 0);

  const Backend& backend() const { return context_.backend(); }
  Context& context() { return context_; }
  Registry& registry() { return registry_; }
  Workspace& workspace() { return workspace_; }
  const Workspace& workspace() const { return workspace_; }

  // kInvalidArgument where the values do not fill the dimensions.
  Result<Tensor> from_host(std::span<const float> values, const Dims& dims);
  Result<Tensor> from_host(std::span<const uint32_t> ids, const Dims& dims);
  // Of f32 or f64.
  static Result<std::vector<float>> to_host(const Tensor& tensor);

 private:
  Execution(const Backend& backend, std::shared_ptr<Queue> queue, unsigned threads)
      : workspace_(std::move(queue)), threads_(threads), context_(backend, registry_, workspace_, threads_) {
    backend.add_implementations(registry_);
  }

  Registry registry_;
  Workspace workspace_;
  ThreadPool threads_;
  Context context_;
};

}  // namespace ballast
