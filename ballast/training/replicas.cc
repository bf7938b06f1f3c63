#include "ballast/training/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ballast/device/host_values.h"
#include "ballast/io/guard.h"
#include "ballast/ops/ops.h"

namespace ballast {

namespace {

struct Part {
  uint64_t begin, count;
};

std::vector<Part> parts_of(uint64_t rows, size_t shards) {
  std::vector<Part> parts;
  const uint64_t each = rows / shards, longer = rows % shards;
  uint64_t begin = 0;
  for (size_t i = 0; i < shards; ++i) {
    const uint64_t count = each + (i < longer ? 1 : 0);
    parts.push_back({begin, count});
    begin += count;
  }
  return parts;
}

// Through copies on the host: replicas may lie on devices that do not know each other.
Status average(std::span<Tensor* const> gradients) {
  std::vector<std::vector<float>> copies;
  for (const Tensor* gradient : gradients) {
    BALLAST_TRY(std::vector<float> values, floats_of(*gradient));
    copies.push_back(std::move(values));
  }
  const std::vector<std::span<float>> spans(copies.begin(), copies.end());
  BALLAST_CHECK(all_reduce(spans, Reduction::kMean));
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i]->write(std::as_bytes(std::span(copies[i])));
  return {};
}

Status check_lengths(std::span<const std::span<float>> values) {
  for (const std::span<float> one : values) {
    if (one.size() == values.front().size()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("replicas do not fit each other: one has {} values, another {}",
                                  values.front().size(), one.size()));
  }
  return {};
}

}  // namespace

Result<std::vector<Tensor>> shard_batch(Context& context, const Tensor& batch, size_t shards) {
  return guarded([&]() -> Result<std::vector<Tensor>> {
    if (shards == 0 || batch.dims().rank() == 0) {
      return make_error(ErrorCode::kInvalidArgument, "a batch needs rows, and at least one replica to go to");
    }
    std::vector<Tensor> parts;
    for (const Part& part : parts_of(batch.dims()[0], shards)) {
      BALLAST_TRY(Tensor piece, ops::slice_along_axis(context, batch, 0, part.begin, part.count));
      parts.push_back(std::move(piece));
    }
    return parts;
  });
}

std::vector<std::span<const uint32_t>> shard_batch(std::span<const uint32_t> labels, size_t shards) {
  std::vector<std::span<const uint32_t>> parts;
  if (shards == 0) return parts;
  for (const Part& part : parts_of(labels.size(), shards)) parts.push_back(labels.subspan(part.begin, part.count));
  return parts;
}

Status all_reduce(std::span<const std::span<float>> values, Reduction reduction) {
  return guarded([&]() -> Status {
    if (values.empty()) return {};
    BALLAST_CHECK(check_lengths(values));
    const auto count = static_cast<float>(values.size());
    for (size_t i = 0; i < values.front().size(); ++i) {
      float sum = values.front()[i];
      for (size_t r = 1; r < values.size(); ++r) sum += values[r][i];
      if (reduction == Reduction::kMean) sum /= count;
      for (const std::span<float> one : values) one[i] = sum;
    }
    return {};
  });
}

Status broadcast(std::span<const std::span<float>> values, size_t root) {
  return guarded([&]() -> Status {
    if (root >= values.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("there is no replica {} among {}", root, values.size()));
    }
    BALLAST_CHECK(check_lengths(values));
    for (size_t r = 0; r < values.size(); ++r) {
      if (r != root) std::ranges::copy(values[root], values[r].begin());
    }
    return {};
  });
}

Status sync_grads(std::span<const Replica> replicas) {
  return guarded([&]() -> Status {
    if (replicas.size() < 2) return {};
    for (size_t i = 0; i < replicas.front().params.size(); ++i) {
      std::vector<Tensor*> gradients;
      for (const Replica& replica : replicas) {
        Tensor* gradient = i < replica.params.size() ? replica.gradients->find(replica.params[i]) : nullptr;
        if (gradient != nullptr) gradients.push_back(gradient);
      }
      if (gradients.empty()) continue;
      if (gradients.size() != replicas.size()) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("\"{}\" has a gradient in {} of {} replicas: every replica needs a backward pass "
                                      "over rows of its own first",
                                      replicas.front().params[i].name(), gradients.size(), replicas.size()));
      }
      BALLAST_CHECK(average(gradients));
    }
    return {};
  });
}

Status broadcast_params(std::span<const Replica> replicas, size_t root) {
  return guarded([&]() -> Status {
    if (root >= replicas.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("there is no replica {} among {}", root, replicas.size()));
    }
    const Replica& source = replicas[root];
    for (const Replica& replica : replicas) {
      if (&replica == &source) continue;
      if (replica.params.size() != source.params.size()) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("one replica has {} parameters, another {}",
                                                                   source.params.size(), replica.params.size()));
      }
      for (size_t i = 0; i < source.params.size(); ++i) {
        const Param &from = source.params[i], &to = replica.params[i];
        if (!(from.shape() == to.shape()) || from.dtype() != to.dtype()) {
          return make_error(ErrorCode::kInvalidArgument, fmt::format("replicas differ in \"{}\"", from.name()));
        }
        const MutableByteSpan bytes = source.memory->bytes(from.index());
        if (!bytes.empty()) std::memcpy(replica.memory->bytes(to.index()).data(), bytes.data(), bytes.size());
      }
    }
    return {};
  });
}

}  // namespace ballast
