// What tests of functionals and backends share: a place to run them in, and values to run them on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ballast/backends/backends.h"
#include "ballast/ops/ops.h"

namespace ballast::testing {

// All backends that compute on this machine, and one whose memory the host cannot reach (examples/emulated_backend.h).
std::vector<const Backend*> tested_backends();
// A queue of the backend's device; of the host where it has none.
std::shared_ptr<Queue> queue_of(const Backend& backend);

// A context with all that it points to.
struct Lab {
  explicit Lab(const Backend& backend = *find_backend("reference"), unsigned thread_count = 1)
      : workspace(queue_of(backend)), threads(thread_count), context(backend, registry, workspace, threads) {
    backend.add_implementations(registry);
  }

  Registry registry;
  Workspace workspace;
  ThreadPool threads;
  Context context;

  // Fails the test where there is no memory.
  Tensor tensor(const std::vector<double>& values, const Dims& dims, DType dtype = DType::kF32);
};

// Of f64, or else rounded to f32. Fails the test where there is no memory.
Tensor tensor_of(Workspace& workspace, const std::vector<double>& values, const Dims& dims, DType dtype);
// Of f32 or f64. Fails the test where they cannot be read.
std::vector<double> values_of(const Tensor& tensor);

MemoryParam make_param(const std::string& name, DType dtype, const Shape& shape, const std::vector<double>& values);
// Fails the test where the store refuses.
std::unique_ptr<ParamStore> make_store(std::vector<MemoryParam> params, const ResidencyOptions& options = {});
Param param_of(ParamStore& store, const std::string& name);

// Between -1 and 1, exact in f32; the same for the same seed.
std::vector<double> random_values(uint64_t seed, size_t count);

}  // namespace ballast::testing
