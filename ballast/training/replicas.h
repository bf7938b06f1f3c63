// Several copies of a model in one process, each with its part of the batch: what they share after a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ops/context.h"
#include "ballast/ops/param_gradients.h"
#include "ballast/params/trained_params.h"

namespace ballast {

enum class Reduction : uint8_t { kSum, kMean };

// Rows of the first dimension in `shards` parts, the first ones longer by one where it does not come out even, as
// numpy.array_split cuts. Parts may be empty.
Result<std::vector<Tensor>> shard_batch(Context& context, const Tensor& batch, size_t shards);
std::vector<std::span<const uint32_t>> shard_batch(std::span<const uint32_t> labels, size_t shards);

// Each span becomes the sum or the mean of all, added in their order. kInvalidArgument where lengths differ.
Status all_reduce(std::span<const std::span<float>> values, Reduction reduction);
// Each span becomes a copy of values[root].
Status broadcast(std::span<const std::span<float>> values, size_t root = 0);

// One replica: its parameters, in the order of all others, and where they and their gradients are.
struct Replica {
  TrainedParams* memory = nullptr;
  ParamGradients* gradients = nullptr;
  std::span<const Param> params;
};
// The mean of all gradients, in each replica. A gradient that some have and others do not is kInvalidArgument.
Status sync_grads(std::span<const Replica> replicas);
// The parameters of replicas[root], in each. Their types must be the same.
Status broadcast_params(std::span<const Replica> replicas, size_t root = 0);

}  // namespace ballast
