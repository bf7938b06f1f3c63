// Rows by themselves: norms, softmax, sums, rows of tables, rotary embeddings, the choice of experts. A block or a warp
// has a row, with as many threads as its width asks for; so what is computed of a row does not depend on other rows.
#include "norms.cuh"

using namespace ballast::cuda;

namespace {

// Of the row of this block.
template <typename Term>
__device__ float sum_over_row(uint64_t features, const Term& term) {
  float sum = 0;
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) sum += term(i);
  return reduce_block(sum, 0.0F, Sum());
}

// Which channels turn together: in halves i and i + half, in pairs 2 i and 2 i + 1.
struct Turn {
  uint64_t first, second;
  __device__ Turn(uint64_t i, uint64_t half, bool in_pairs)
      : first(in_pairs ? 2 * i : i), second(in_pairs ? 2 * i + 1 : i + half) {}
};

}  // namespace

extern "C" {

// A block a row.
__global__ void layer_norm_f32(const float* x, const uint8_t* gamma, uint32_t gamma_type, const uint8_t* beta,
                               uint32_t beta_type, float* y, float eps, uint64_t features) {
  begin_kernel();
  x += blockIdx.x * features;
  y += blockIdx.x * features;
  const auto sum_of_terms = [&](const auto& term) {
    return sum_over_row(features, [&](uint64_t i) { return term(x[i]); });
  };
  const RowNorm norm = deviation_of_row(features, eps, sum_of_terms);
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) {
    y[i] = layer_normed(norm, x[i], value_or(gamma, gamma_type, i, 1), value_or(beta, beta_type, i, 0));
  }
}

__global__ void rms_norm_f32(const float* x, const uint8_t* gamma, uint32_t gamma_type, float* y, float eps,
                             float shift, uint64_t features) {
  begin_kernel();
  x += blockIdx.x * features;
  y += blockIdx.x * features;
  const auto sum_of_terms = [&](const auto& term) {
    return sum_over_row(features, [&](uint64_t i) { return term(x[i]); });
  };
  const RowNorm norm = rms_of_row(features, eps, sum_of_terms);
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) {
    y[i] = rms_normed(norm, x[i], value_or(gamma, gamma_type, i, 1), shift);
  }
}

__global__ void softmax_f32(const float* x, float* y, uint64_t features) {
  begin_kernel();
  x += blockIdx.x * features;
  y += blockIdx.x * features;
  float largest = -INFINITY;
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) largest = Largest()(x[i], largest);
  largest = reduce_block(largest, -INFINITY, Largest());
  const float sum = sum_over_row(features, [&](uint64_t i) { return expf(x[i] - largest); });
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) y[i] = expf(x[i] - largest) / sum;
}

__global__ void sum_rows_f32(const float* x, float* y, uint64_t features) {
  begin_kernel();
  x += blockIdx.x * features;
  double sum = 0;
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) sum += static_cast<double>(x[i]);
  sum = reduce_block(sum, 0.0, Sum());
  if (threadIdx.x == 0) y[blockIdx.x] = static_cast<float>(sum);
}

// A block a row of the output.
__global__ void lookup_f32(const uint8_t* table, uint32_t type, uint64_t row_bytes, const uint32_t* ids, float* y,
                           uint64_t features) {
  begin_kernel();
  const uint8_t* row = table + ids[blockIdx.x] * row_bytes;
  y += blockIdx.x * features;
  for (uint64_t i = threadIdx.x; i < features; i += blockDim.x) {
    y[i] = weight_at(static_cast<WeightType>(type), row, i);
  }
}

// Of rows [rows, stride] the first `heads` heads are turned, and what is behind them is copied; position of row r is
// r % length.
__global__ void rope_f32(const float* x, const float* cosines, const float* sines, float* y, uint64_t stride,
                         uint64_t heads, uint64_t head_dim, uint64_t half, uint64_t length, uint32_t in_pairs,
                         uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) {
    const uint64_t row = i / stride, column = i % stride, channel = column % head_dim;
    if (column >= heads * head_dim || channel >= 2 * half) {
      y[i] = x[i];
      return;
    }
    const bool is_second = in_pairs != 0 ? channel % 2 != 0 : channel >= half;
    const uint64_t place = in_pairs != 0 ? channel / 2 : channel % half;
    const Turn turn(place, half, in_pairs != 0);
    const float* head = x + (i - channel);
    const float a = head[turn.first], b = head[turn.second];
    const uint64_t at = row % length * half + place;
    const float cosine = cosines[at], sine = sines[at];
    y[i] = is_second ? b * cosine + a * sine : a * cosine - b * sine;
  });
}

// Heads in the first `turned` columns of each row: first the even channels, then the odd ones.
__global__ void pairs_to_halves_f32(const float* x, float* y, uint64_t stride, uint64_t turned, uint64_t head_dim,
                                    uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) {
    const uint64_t column = i % stride, channel = column % head_dim, half = head_dim / 2;
    const uint64_t from = channel < half ? 2 * channel : 2 * (channel - half) + 1;
    y[i] = column < turned ? x[i - channel + from] : x[i];
  });
}

// A warp a row: its softmax, of which the `used` largest stay. A row with a NaN has no order: everything stays.
__global__ void expert_gates_f32(const float* scores, float* gates, uint32_t experts, uint32_t used, uint32_t normalise,
                                 uint64_t rows) {
  begin_kernel();
  const uint64_t row = first_index() / 32;
  const uint32_t lane = threadIdx.x % 32;
  if (row >= rows) return;
  scores += row * experts;
  gates += row * experts;
  float largest = -INFINITY;
  for (uint32_t i = lane; i < experts; i += 32) largest = Largest()(scores[i], largest);
  largest = reduce_warp(largest, Largest());
  float sum = 0;
  for (uint32_t i = lane; i < experts; i += 32) sum += expf(scores[i] - largest);
  sum = reduce_warp(sum, Sum());
  const bool has_nan = sum != sum;
  // Shares are compared, as scores that differ can have the same share.
  float kept = 0;
  for (uint32_t begin = 0; begin < experts; begin += 32) {
    const uint32_t i = begin + lane;
    const float mine = i < experts ? expf(scores[i] - largest) / sum : 0;
    uint32_t before = 0;
    for (uint32_t j = 0; j < experts; ++j) {
      const float other = expf(scores[j] - largest) / sum;
      if (other > mine || (other == mine && j < i)) ++before;
    }
    if (i < experts) {
      const float gate = has_nan || before < used ? mine : 0;
      gates[i] = gate;
      kept += gate;
    }
  }
  kept = reduce_warp(kept, Sum());
  if (normalise == 0 || has_nan) return;
  for (uint32_t i = lane; i < experts; i += 32) gates[i] /= kept;
}

// y[ids[i]] += gates[ids[i], expert] * x[i], for rows of `width` elements.
__global__ void add_expert_f32(const float* x, const uint32_t* ids, const float* gates, float* y, uint64_t experts,
                               uint64_t expert, uint64_t width, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) {
    const uint64_t row = ids[i / width], at = row * width + i % width;
    y[at] = fmaf(gates[row * experts + expert], x[i], y[at]);
  });
}

}  // extern "C"
