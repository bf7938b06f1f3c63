// Convolutions of NHWC images.
//
// Those of one group are products of windows, whose terms go over their pixels, row by row, and of each pixel over its
// channels, with filters in that order. Windows lie nowhere: a block copies the pixels of its windows into shared
// memory, some terms at a time. One element of y is one chain of operations, whatever else is computed:
//   a term           x and the weight as one to three bf16 numbers each, whose products are exact in f32
//   a segment        256 terms: fragments of 16 terms in ascending order, added up by tensor cores
//   the element      the sums of segments, added in ascending order
// Where there are few windows, segments are summed up by blocks of their own, and added by another kernel.
//
// Other convolutions are summed up in f32, term by term.
#include "products_sums.cuh"
#include "windows.cuh"

using namespace ballast::cuda;

namespace {

constexpr uint32_t kStepTerms = kConvolutionTerms;
constexpr uint32_t kStepsOfSegment = static_cast<uint32_t>(kSegmentTerms) / kStepTerms;

// ---------------------------------------------------------------- copies that are waited for later
__device__ __forceinline__ void copy_16(void* to, const void* from, bool is_there) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(is_there ? 16 : 0)
      : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOpen>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// ---------------------------------------------------------------- how a block works
// kDown x kAcross warps, each of kWarpRows windows and kWarpOutputs outputs.
template <int kDownWarps, int kAcrossWarps, int kRowsOfWarp, int kOutputsOfWarp>
struct Tiling {
  static constexpr int kDown = kDownWarps, kAcross = kAcrossWarps;
  static constexpr int kWarpRows = kRowsOfWarp, kWarpOutputs = kOutputsOfWarp;
  static constexpr int kRows = kDown * kWarpRows, kOutputs = kAcross * kWarpOutputs;
  static constexpr int kWarps = kDown * kAcross, kOfBlock = 32 * kWarps;
  static constexpr int kStride = kOutputs + 8;  // of sums of a window, in floats
};

// One stage of shared memory: windows as f32, filters as kParts of bf16. Runs of 16 bytes are exchanged so that no bank
// is asked twice when lanes read fragments.
template <typename Tiles, int kParts>
struct Stage {
  float4 x[Tiles::kRows][kStepTerms / 4];
  uint4 w[kParts][Tiles::kOutputs][kStepTerms / 8];

  __device__ __forceinline__ float4& window(uint32_t row, uint32_t run) { return x[row][run ^ (row & 1) << 2]; }
  __device__ __forceinline__ uint4& filter(uint32_t part, uint32_t output, uint32_t run) {
    return w[part][output][run ^ (output & 2)];
  }
};

// What a thread copies of windows: the same four terms of each step, of some rows. Terms are asked for in order.
template <typename Tiles>
struct WindowCopies {
  static constexpr uint32_t kRuns = kStepTerms / 4, kStepRows = Tiles::kOfBlock / kRuns;
  static constexpr int kOfThread = Tiles::kRows / static_cast<int>(kStepRows);
  const Windows& p;
  const uint32_t run;
  const float* first[kOfThread];  // pixel of a window, wherever that is; null behind the last window
  int top[kOfThread], left[kOfThread];
  uint32_t channel, down, across;  // of the term that is next

  __device__ __forceinline__ WindowCopies(const Convolution& conv, uint64_t first_row, uint32_t first_term)
      : p(conv.windows), run(threadIdx.x % kRuns) {
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const uint64_t row = first_row + threadIdx.x / kRuns + i * kStepRows;
      const Window window(p, static_cast<uint32_t>(row));
      top[i] = static_cast<int>(window.top);
      left[i] = static_cast<int>(window.left);
      first[i] = row < conv.ends.m ? window.image + (window.top * p.w + window.left) * p.c : nullptr;
    }
    const uint32_t term = first_term + run * 4;
    channel = term % p.c;
    down = term / p.c / p.window_w;
    across = term / p.c % p.window_w;
  }

  template <typename S>
  __device__ __forceinline__ void copy_step(S& stage) {
    const int y = static_cast<int>(down * p.dilation_h), x = static_cast<int>(across * p.dilation_w);
    const int64_t on = (static_cast<int64_t>(y) * p.w + x) * p.c + channel;
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const bool is_inside = static_cast<uint32_t>(top[i] + y) < p.h && static_cast<uint32_t>(left[i] + x) < p.w;
      const bool is_there = is_inside && down < p.window_h && first[i] != nullptr;
      const float* const from = is_there ? first[i] + on : reinterpret_cast<const float*>(p.x);
      copy_16(&stage.window(threadIdx.x / kRuns + i * kStepRows, run), from, is_there);
    }
    channel += kStepTerms;
    while (channel >= p.c) {
      channel -= p.c;
      if (++across == p.window_w) {
        across = 0;
        ++down;
      }
    }
  }
};

// Eight terms of some outputs at a time.
template <typename Tiles, int kParts>
struct FilterCopies {
  static constexpr uint32_t kRuns = kStepTerms / 8, kStepOutputs = Tiles::kOfBlock / kRuns;
  static constexpr int kOfThread =
      (Tiles::kOutputs + static_cast<int>(kStepOutputs) - 1) / static_cast<int>(kStepOutputs);
  const uint32_t run;
  const uint64_t terms, of_part;
  const uint16_t* from[kOfThread];  // null behind the last output
  uint64_t term;

  __device__ __forceinline__ FilterCopies(const Convolution& p, uint64_t first_output, uint32_t first_term)
      : run(threadIdx.x % kRuns), terms(p.ends.k), of_part(p.ends.n * p.ends.k), term(first_term + run * 8) {
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const uint64_t output = first_output + threadIdx.x / kRuns + i * kStepOutputs;
      from[i] = output < p.ends.n ? reinterpret_cast<const uint16_t*>(p.filters) + output * p.ends.k : nullptr;
    }
    nothing = reinterpret_cast<const uint16_t*>(p.filters);
  }

  template <typename S>
  __device__ __forceinline__ void copy_step(S& stage) {
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const uint32_t at = threadIdx.x / kRuns + i * kStepOutputs;
      const bool is_there = from[i] != nullptr && term < terms;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        copy_16(&stage.filter(part, at, run), is_there ? from[i] + part * of_part + term : nothing, is_there);
      }
    }
    term += kStepTerms;
  }

 private:
  const uint16_t* nothing;
};

// Four terms of a row as parts, for fragments: lane t of four has terms 4 t .. 4 t + 3 of 16 in every operand.
template <int kParts>
__device__ __forceinline__ void split_four(float4 x, uint32_t (&low)[kParts], uint32_t (&high)[kParts]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const __nv_bfloat162 a = __floats2bfloat162_rn(x.x, x.y), b = __floats2bfloat162_rn(x.z, x.w);
    low[part] = bits_of(a);
    high[part] = bits_of(b);
    if (part + 1 == kParts) break;
    x.x -= __low2float(a), x.y -= __high2float(a);
    x.z -= __low2float(b), x.w -= __high2float(b);
  }
}

// ---------------------------------------------------------------- the kernel
// kX, kW: parts of x and of weights. Products of parts that are less than 2^-24 of the term are left out.
template <typename Tiles, int kX, int kW>
struct Convolver {
  static constexpr int kRowTiles = Tiles::kWarpRows / 16, kOutputTiles = Tiles::kWarpOutputs / 8;
  static constexpr int kMostOrder = kX > kW ? kX - 1 : kW - 1;
  const Convolution& p;
  const Lane lane;
  const uint32_t first_row, first_output;  // of the warp, in the block
  float sums[kRowTiles][kOutputTiles][4];

  __device__ __forceinline__ explicit Convolver(const Convolution& conv)
      : p(conv),
        first_row(threadIdx.x / 32 / Tiles::kAcross * Tiles::kWarpRows),
        first_output(threadIdx.x / 32 % Tiles::kAcross * Tiles::kWarpOutputs) {}

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& of_row : sums) {
#pragma unroll
      for (auto& tile : of_row) tile[0] = tile[1] = tile[2] = tile[3] = 0;
    }
  }

  __device__ __forceinline__ void multiply_step(Stage<Tiles, kW>& stage) {
#pragma unroll
    for (uint32_t sixteen = 0; sixteen < kStepTerms / 16; ++sixteen) {
      uint2 w[kOutputTiles][kW];
#pragma unroll
      for (int tile = 0; tile < kOutputTiles; ++tile) {
#pragma unroll
        for (int part = 0; part < kW; ++part) {
          const uint32_t output = first_output + tile * 8 + lane.g;
          w[tile][part] =
              reinterpret_cast<const uint2*>(&stage.filter(part, output, sixteen * 2 + lane.t / 2))[lane.t % 2];
        }
      }
#pragma unroll
      for (int row = 0; row < kRowTiles; ++row) {
        uint32_t low[2][kX], high[2][kX];
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          split_four<kX>(stage.window(first_row + row * 16 + half * 8 + lane.g, sixteen * 4 + lane.t), low[half],
                         high[half]);
        }
        // The smallest products first.
#pragma unroll
        for (int order = kMostOrder; order >= 0; --order) {
#pragma unroll
          for (int part = kW - 1; part >= 0; --part) {
            if (order - part < 0 || order - part >= kX) continue;
            const uint32_t a[4] = {low[0][order - part], low[1][order - part], high[0][order - part],
                                   high[1][order - part]};
#pragma unroll
            for (int tile = 0; tile < kOutputTiles; ++tile) {
              multiply<false>(sums[row][tile], a, w[tile][part].x, w[tile][part].y);
            }
          }
        }
      }
    }
  }

  // To [windows][outputs] of the block, with kStride floats for a window.
  template <typename Values>
  __device__ __forceinline__ void put(const Values& values, float* to) const {
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
      for (int tile = 0; tile < kOutputTiles; ++tile) {
        float* const at = to + (first_row + row * 16 + lane.g) * Tiles::kStride + first_output + tile * 8 + lane.t * 2;
        *reinterpret_cast<float2*>(at) = make_float2(values[row][tile][0], values[row][tile][1]);
        *reinterpret_cast<float2*>(at + 8 * Tiles::kStride) = make_float2(values[row][tile][2], values[row][tile][3]);
      }
    }
  }
};

// ---------------------------------------------------------------- the ends of sums
// Four outputs, of which there may be fewer.
__device__ __forceinline__ float4 four_biases(const ProductEnds& p, uint64_t output, uint32_t count) {
  float4 bias = make_float4(0, 0, 0, 0);
  if (p.bias == 0) return bias;
  bias.x = plain_at(p.bias_type, p.bias, output);
  if (count > 1) bias.y = plain_at(p.bias_type, p.bias, output + 1);
  if (count > 2) bias.z = plain_at(p.bias_type, p.bias, output + 2);
  if (count > 3) bias.w = plain_at(p.bias_type, p.bias, output + 3);
  return bias;
}
__device__ __forceinline__ float4 finished_four(uint32_t bend, const float4& sum, const float4& bias,
                                                const float4& residual) {
  return make_float4(bent(bend, sum.x + bias.x + residual.x), bent(bend, sum.y + bias.y + residual.y),
                     bent(bend, sum.z + bias.z + residual.z), bent(bend, sum.w + bias.w + residual.w));
}

__device__ __forceinline__ float4 load_four(const float* from, uint32_t count) {
  if (count == 4 && reinterpret_cast<uint64_t>(from) % 16 == 0) return *reinterpret_cast<const float4*>(from);
  return make_float4(from[0], count > 1 ? from[1] : 0, count > 2 ? from[2] : 0, count > 3 ? from[3] : 0);
}
__device__ __forceinline__ void store_four(float* to, const float4& values, uint32_t count) {
  if (count == 4 && reinterpret_cast<uint64_t>(to) % 16 == 0) {
    *reinterpret_cast<float4*>(to) = values;
    return;
  }
  to[0] = values.x;
  if (count > 1) to[1] = values.y;
  if (count > 2) to[2] = values.z;
  if (count > 3) to[3] = values.w;
}

// Sums of a block's windows and outputs, to y or to where segments are added up. What a thread needs of several runs is
// asked for before the first is used.
template <typename Tiles>
__device__ __forceinline__ void finish_block(const Convolution& p, const float* sums, uint64_t first_row,
                                             uint64_t first_output) {
  constexpr uint32_t kRuns = Tiles::kOutputs / 4;
  constexpr int kOfThread = Tiles::kRows * static_cast<int>(kRuns) / Tiles::kOfBlock,
                kAtOnce = kOfThread < 4 ? kOfThread : 4;
  static_assert(Tiles::kOfBlock % kRuns == 0 && kOfThread % kAtOnce == 0);
  const uint64_t output = first_output + threadIdx.x % kRuns * 4;
  if (output >= p.ends.n) return;
  const auto count = static_cast<uint32_t>(p.ends.n - output < 4 ? p.ends.n - output : 4);
  const bool is_part = p.partial != 0;
  float* const to = is_part ? reinterpret_cast<float*>(p.partial) + blockIdx.y * p.ends.m * p.ends.n
                            : reinterpret_cast<float*>(p.ends.y);
  const float4 bias = is_part ? make_float4(0, 0, 0, 0) : four_biases(p.ends, output, count);
  const bool has_residual = !is_part && p.ends.residual != 0;
  for (int begin = 0; begin < kOfThread; begin += kAtOnce) {
    float4 residual[kAtOnce];
    uint32_t row[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      row[i] = (threadIdx.x + (begin + i) * Tiles::kOfBlock) / kRuns;
      residual[i] = make_float4(0, 0, 0, 0);
      const uint64_t at = (first_row + row[i]) * p.ends.n + output;
      if (has_residual && first_row + row[i] < p.ends.m) {
        residual[i] = load_four(reinterpret_cast<const float*>(p.ends.residual) + at, count);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first_row + row[i] >= p.ends.m) continue;
      float4 sum = *reinterpret_cast<const float4*>(sums + row[i] * Tiles::kStride + threadIdx.x % kRuns * 4);
      if (!is_part) sum = finished_four(p.ends.bend, sum, bias, residual[i]);
      store_four(to + (first_row + row[i]) * p.ends.n + output, sum, count);
    }
  }
}

template <typename Tiles, int kX, int kW>
__device__ __forceinline__ void convolve(const Convolution& p) {
  extern __shared__ uint4 shared[];
  auto* const stages = reinterpret_cast<Stage<Tiles, kW>*>(shared);
  let_later_start();
  const uint64_t across = (p.ends.n + Tiles::kOutputs - 1) / Tiles::kOutputs;
  const uint64_t first_row = blockIdx.x / across * Tiles::kRows, first_output = blockIdx.x % across * Tiles::kOutputs;
  const uint32_t steps_of_all = static_cast<uint32_t>((p.ends.k + kStepTerms - 1) / kStepTerms);
  const uint32_t first_step = p.partial != 0 ? blockIdx.y * kStepsOfSegment : 0;
  const uint32_t last_step =
      p.partial != 0 && first_step + kStepsOfSegment < steps_of_all ? first_step + kStepsOfSegment : steps_of_all;
  WindowCopies<Tiles> windows(p, first_row, first_step * kStepTerms);
  FilterCopies<Tiles, kW> filters(p, first_output, first_step * kStepTerms);
  const auto copy_filters = [&](uint32_t step) {
    if (step < last_step) filters.copy_step(stages[step % kConvolutionStages]);
  };
  const auto copy_windows = [&](uint32_t step) {
    if (step < last_step) windows.copy_step(stages[step % kConvolutionStages]);
    end_copies();
  };
#pragma unroll
  for (int i = 0; i < kConvolutionStages - 1; ++i) copy_filters(first_step + i);  // which are there already
  wait_for_earlier();
#pragma unroll
  for (int i = 0; i < kConvolutionStages - 1; ++i) copy_windows(first_step + i);

  Convolver<Tiles, kX, kW> convolver(p);
  float totals[Convolver<Tiles, kX, kW>::kRowTiles][Convolver<Tiles, kX, kW>::kOutputTiles][4] = {};
  convolver.clear();
  for (uint32_t step = first_step; step < last_step; ++step) {
    wait_for_copies<kConvolutionStages - 2>();
    __syncthreads();  // everyone's copies are there, and nobody reads the stage that is next to be filled
    copy_filters(step + kConvolutionStages - 1);
    copy_windows(step + kConvolutionStages - 1);
    convolver.multiply_step(stages[step % kConvolutionStages]);
    if ((step + 1) % kStepsOfSegment != 0 && step + 1 != last_step) continue;
#pragma unroll
    for (int row = 0; row < Convolver<Tiles, kX, kW>::kRowTiles; ++row) {
#pragma unroll
      for (int tile = 0; tile < Convolver<Tiles, kX, kW>::kOutputTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) totals[row][tile][i] += convolver.sums[row][tile][i];
      }
    }
    convolver.clear();
  }
  __syncthreads();  // nobody reads stages any more
  float* const of_block = reinterpret_cast<float*>(shared);
  convolver.put(totals, of_block);
  __syncthreads();
  finish_block<Tiles>(p, of_block, first_row, first_output);
}

// ---------------------------------------------------------------- filters
// [outputs, channels, pixels] to [parts][outputs, terms], where a pixel's channels follow each other, as many as there
// is room for, and zeros the last pixel.
template <int kParts, typename T>
__device__ __forceinline__ void arrange(const T* from, __nv_bfloat16* to, uint64_t outputs, uint32_t channels,
                                        uint32_t room, uint32_t pixels, uint64_t terms) {
  wait_for_earlier();
  for_each_index(outputs * terms, [&](uint64_t i) {
    const uint64_t output = i / terms, term = i % terms, pixel = term / room, channel = term % room;
    float value = 0;
    if (pixel < pixels && channel < channels) {
      value = static_cast<float>(from[(output * channels + channel) * pixels + pixel]);
    }
    for (int part = 0; part < kParts; ++part) {
      const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
      to[part * outputs * terms + i] = rounded;
      value -= __bfloat162float(rounded);
    }
  });
}

// ---------------------------------------------------------------- term by term
__device__ __forceinline__ float4 multiply_add(const float4& a, const float4& b, const float4& c) {
  return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}

// small: for few windows; tall: for many.
using SmallTiles = Tiling<4, 2, 16, 32>;
using TallTiles = Tiling<4, 2, 32, 32>;
static_assert(SmallTiles::kRows == kConvolutionRows && TallTiles::kRows == 2 * kConvolutionRows);
static_assert(SmallTiles::kOutputs == kConvolutionOutputs && TallTiles::kOutputs == kConvolutionOutputs);
static_assert(SmallTiles::kOfBlock == kConvolutionThreads && TallTiles::kOfBlock == kConvolutionThreads);
template <typename Tiles, int kParts>
constexpr bool has_shared_bytes = sizeof(Stage<Tiles, kParts>) * kConvolutionStages ==
                                      convolution_shared_bytes(Tiles::kRows, kParts) &&
                                  Tiles::kRows* Tiles::kStride * sizeof(float) <=
                                      sizeof(Stage<Tiles, kParts>) * kConvolutionStages;
static_assert(has_shared_bytes<SmallTiles, 1> && has_shared_bytes<TallTiles, 3>);

}  // namespace

extern "C" {

#define BALLAST_CONVOLUTION(name, kX, kW)                              \
  __global__ void __launch_bounds__(SmallTiles::kOfBlock)              \
      convolve_##name##_small(const __grid_constant__ Convolution p) { \
    convolve<SmallTiles, kX, kW>(p);                                   \
  }                                                                    \
  __global__ void __launch_bounds__(TallTiles::kOfBlock, 2)            \
      convolve_##name##_tall(const __grid_constant__ Convolution p) {  \
    convolve<TallTiles, kX, kW>(p);                                    \
  }
BALLAST_CONVOLUTION(bf16_fast, 2, 1)
BALLAST_CONVOLUTION(bf16_exact, 3, 1)
BALLAST_CONVOLUTION(f16, 3, 2)
BALLAST_CONVOLUTION(f32, 3, 3)
#undef BALLAST_CONVOLUTION

// [positions, channels] to [positions, room], zeros behind: four channels are copied at a time.
__global__ void pad_channels(const float* x, float* y, uint32_t channels, uint32_t room, uint64_t count) {
  begin_kernel();
  for_each_small_index(count, [&](auto i) {
    const auto channel = static_cast<uint32_t>(i % room);
    y[i] = channel < channels ? x[i / room * channels + channel] : 0;
  });
}

// What blocks wrote of segments, added up.
__global__ void sum_segments(const __grid_constant__ Convolution p, uint32_t segments) {
  begin_kernel();
  const uint64_t count = p.ends.m * p.ends.n;
  const auto* const partial = reinterpret_cast<const float*>(p.partial);
  for_each_small_index(count, [&](auto i) {
    float sum = 0;
#pragma unroll 8
    for (uint32_t segment = 0; segment < segments; ++segment) sum += partial[segment * count + i];
    reinterpret_cast<float*>(p.ends.y)[i] = finished(p.ends, i, i % static_cast<decltype(i)>(p.ends.n), sum);
  });
}

// Convolutions may read what these write before they wait for it, so they let none of them start early.
__global__ void arrange_filters_bf16(const __nv_bfloat16* from, __nv_bfloat16* to, uint64_t outputs, uint32_t channels,
                                     uint32_t room, uint32_t pixels, uint64_t terms) {
  arrange<1>(from, to, outputs, channels, room, pixels, terms);
}
__global__ void arrange_filters_f16(const __half* from, __nv_bfloat16* to, uint64_t outputs, uint32_t channels,
                                    uint32_t room, uint32_t pixels, uint64_t terms) {
  arrange<2>(from, to, outputs, channels, room, pixels, terms);
}
__global__ void arrange_filters_f32(const float* from, __nv_bfloat16* to, uint64_t outputs, uint32_t channels,
                                    uint32_t room, uint32_t pixels, uint64_t terms) {
  arrange<3>(from, to, outputs, channels, room, pixels, terms);
}
// Filters of one channel each: [outputs, pixels] to f32 [pixels, outputs].
__global__ void arrange_single_filters(DeviceAddress from, uint32_t type, float* to, uint64_t outputs,
                                       uint32_t pixels) {
  wait_for_earlier();
  for_each_index(outputs * pixels,
                 [&](uint64_t i) { to[i] = plain_at(type, from, i % outputs * pixels + i / outputs); });
}

// Of as many groups as channels and outputs, which are a multiple of four: a thread four outputs of a position. Filters
// as arrange_single_filters leaves them.
__global__ void convolve_single_f32(const __grid_constant__ Convolution p) {
  begin_kernel();
  const Windows& windows = p.windows;
  const auto fours = static_cast<uint32_t>(p.ends.n / 4);
  for_each_small_index(p.ends.m * fours, [&](auto i) {
    const auto at = static_cast<uint32_t>(i % fours);
    const Window window(windows, i / fours);
    const float4 bias = four_biases(p.ends, at * 4ULL, 4);
    const float4* filter = reinterpret_cast<const float4*>(p.filters) + at;
    float4 sum = make_float4(0, 0, 0, 0);
    window.for_each_row(windows, [&](const float* row, uint32_t down) {
#pragma unroll 3
      for (uint32_t across = 0; across < windows.window_w; ++across) {
        const bool is_inside = window.has_column(windows, across);
        const uint64_t pixels = static_cast<uint64_t>(across) * windows.dilation_w;  // from a row's first, far outside
        const float4* const pixel = reinterpret_cast<const float4*>(row) + pixels * fours + at;
        const float4 x = is_inside ? *pixel : make_float4(0, 0, 0, 0);
        const float4 with = multiply_add(x, __ldg(filter + (down * windows.window_w + across) * fours), sum);
        if (is_inside) sum = with;
      }
    });
    float4 residual = make_float4(0, 0, 0, 0);
    if (p.ends.residual != 0) residual = reinterpret_cast<const float4*>(p.ends.residual)[i];
    reinterpret_cast<float4*>(p.ends.y)[i] = finished_four(p.ends.bend, sum, bias, residual);
  });
}

// Of groups of any size: a thread an output of a position.
__global__ void convolve_groups_f32(const __grid_constant__ GroupedConvolution p) {
  begin_kernel();
  const uint32_t pixels = p.windows.window_h * p.windows.window_w;
  for_each_index(p.ends.m * p.ends.n, [&](uint64_t i) {
    const uint64_t output = i % p.ends.n, filter = output * p.channels * pixels;
    const Window window(p.windows, i / p.ends.n);
    const uint64_t first_channel = output / p.outputs_of_group * p.channels;
    float sum = 0;
    window.for_each_pixel(p.windows, [&](const float* pixel, uint32_t place) {
      for (uint32_t c = 0; c < p.channels; ++c) {
        sum = fmaf(pixel[first_channel + c], plain_at(p.weight_type, p.weights, filter + c * pixels + place), sum);
      }
    });
    reinterpret_cast<float*>(p.ends.y)[i] = finished(p.ends, i, output, sum);
  });
}

// A thread an element of y: the terms are those of the positions of x whose windows it lies in, row by row.
__global__ void convolve_transposed_f32(const __grid_constant__ TransposedConvolution p) {
  begin_kernel();
  for_each_index(p.count, [&](uint64_t i) {
    const uint64_t output = i % p.outputs, position = i / p.outputs;
    const uint64_t down = position / p.out_w % p.out_h + p.pad, across = position % p.out_w + p.pad;
    const float* const image = reinterpret_cast<const float*>(p.x) + position / p.out_w / p.out_h * p.h * p.w * p.c;
    const uint64_t first_y = down < p.window_h ? 0 : (down - p.window_h) / p.stride + 1;
    const uint64_t first_x = across < p.window_w ? 0 : (across - p.window_w) / p.stride + 1;
    float sum = 0;
    for (uint64_t y = first_y; y < p.h && y * p.stride <= down; ++y) {
      for (uint64_t x = first_x; x < p.w && x * p.stride <= across; ++x) {
        const uint64_t place = (down - y * p.stride) * p.window_w + across - x * p.stride;
        for (uint64_t c = 0; c < p.c; ++c) {
          const uint64_t weight = (c * p.outputs + output) * p.window_h * p.window_w + place;
          sum = fmaf(image[(y * p.w + x) * p.c + c], plain_at(p.weight_type, p.weights, weight), sum);
        }
      }
    }
    if (p.bias != 0) sum += plain_at(p.bias_type, p.bias, output);
    reinterpret_cast<float*>(p.y)[i] = sum;
  });
}

}  // extern "C"
