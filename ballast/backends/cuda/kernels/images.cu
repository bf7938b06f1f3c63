// Images but for convolutions: poolings, larger images, norms of channels and of groups of them.
#include "weight_values.cuh"
#include "windows.cuh"

using namespace ballast::cuda;

namespace {

__device__ __forceinline__ float channel_value(const uint8_t* values, uint32_t type, uint64_t channel) {
  return weight_at(static_cast<WeightType>(type), values, channel);
}

// NaN stays.
__device__ __forceinline__ float pooled(bool is_mean, float result, float value) {
  if (is_mean) return result + value;
  return result == result && !(value <= result) ? value : result;
}

// Where, among `size` places of one side, place `to` of a side that is `factor` times as long lies: two neighbours, and
// what the second counts.
struct Between {
  uint32_t first, second;
  float share;

  __device__ __forceinline__ Between(uint32_t to, uint32_t size, uint32_t factor, uint32_t method) {
    const double last = static_cast<double>(size) - 1;
    double at = (static_cast<double>(to) + 0.5) / factor - 0.5;
    if (method == 0) at = to / factor;
    if (method == 2) {
      const uint64_t out_last = static_cast<uint64_t>(size) * factor - 1;
      at = out_last == 0 ? 0 : static_cast<double>(to) * last / static_cast<double>(out_last);
    }
    at = fmin(fmax(at, 0.0), last);
    first = static_cast<uint32_t>(at);
    second = first + 1 < size ? first + 1 : first;
    share = static_cast<float>(at - first);
  }
};

// What counts nothing is not multiplied: 0 times infinity is no number.
__device__ __forceinline__ float mixed(float first, float second, float share) {
  return share == 0 ? first : (1 - share) * first + share * second;
}

}  // namespace

extern "C" {

// A thread an element of y, whose window's pixels are taken row by row. Elements lie with strides `from` and `to`.
__global__ void pool_f32(const __grid_constant__ Windows p, const __grid_constant__ ImageStrides from,
                         const __grid_constant__ ImageStrides to, float* out, uint32_t pooling, uint64_t count) {
  begin_kernel();
  const bool is_mean = static_cast<Pooling>(pooling) == Pooling::kMean;
  // Threads that follow each other take what follows each other in y.
  const uint32_t inner = to.c == 1 ? p.c : p.out_w, middle = to.c == 1 ? p.out_w : p.out_h;
  const uint32_t outer = to.c == 1 ? p.out_h : p.c;
  for_each_small_index(count, [&](auto i) {
    const uint64_t a = i % inner, b = i / inner % middle, d = i / inner / middle % outer,
                   image = i / inner / middle / outer;
    const uint64_t c = to.c == 1 ? a : d, ox = to.c == 1 ? b : a, oy = to.c == 1 ? d : b;
    const float* const in = reinterpret_cast<const float*>(p.x) + image * from.image + c * from.c;
    float result = is_mean ? 0 : -INFINITY;
    for (uint32_t down = 0; down < p.window_h; ++down) {
      const int64_t y = static_cast<int64_t>(oy * p.stride_h + down) - p.pad_top;
      if (y < 0 || y >= p.h) continue;
      for (uint32_t across = 0; across < p.window_w; ++across) {
        const int64_t x = static_cast<int64_t>(ox * p.stride_w + across) - p.pad_left;
        if (x < 0 || x >= p.w) continue;
        result = pooled(is_mean, result, in[y * from.y + x * from.x]);
      }
    }
    if (is_mean) result /= static_cast<float>(p.window_h) * static_cast<float>(p.window_w);
    out[image * to.image + oy * to.y + ox * to.x + c * to.c] = result;
  });
}

// The same of NHWC whose channels are a multiple of four, of which a thread has four.
__global__ void pool_fours_f32(const __grid_constant__ Windows p, float* out, uint32_t pooling, uint64_t count) {
  begin_kernel();
  const bool is_mean = static_cast<Pooling>(pooling) == Pooling::kMean;
  const float size = static_cast<float>(p.window_h) * static_cast<float>(p.window_w);
  const uint32_t fours = p.c / 4;
  for_each_small_index(count / 4, [&](auto i) {
    const auto at = static_cast<uint32_t>(i % fours);
    const Window window(p, i / fours);
    const float from = is_mean ? 0 : -INFINITY;
    float4 result = make_float4(from, from, from, from);
    window.for_each_row(p, [&](const float* row, uint32_t) {
#pragma unroll 3
      for (uint32_t across = 0; across < p.window_w; ++across) {
        if (!window.has_column(p, across)) continue;
        const float4 x = reinterpret_cast<const float4*>(row)[static_cast<uint64_t>(across) * fours + at];
        result = make_float4(pooled(is_mean, result.x, x.x), pooled(is_mean, result.y, x.y),
                             pooled(is_mean, result.z, x.z), pooled(is_mean, result.w, x.w));
      }
    });
    if (is_mean) result = make_float4(result.x / size, result.y / size, result.z / size, result.w / size);
    reinterpret_cast<float4*>(out)[i] = result;
  });
}

// A block 32 channels of an image: 8 sums of every eighth pixel each, which are then added up in order.
__global__ void mean_of_pixels_f32(const float* x, float* y, uint64_t pixels, uint64_t channels) {
  __shared__ float sums[8][32];
  begin_kernel();
  const uint64_t tiles = (channels + 31) / 32, image = blockIdx.x / tiles;
  const uint64_t channel = blockIdx.x % tiles * 32 + threadIdx.x % 32;
  const uint32_t line = threadIdx.x / 32;
  float sum = 0;
  if (channel < channels) {
    for (uint64_t pixel = line; pixel < pixels; pixel += 8) sum += x[(image * pixels + pixel) * channels + channel];
  }
  sums[line][threadIdx.x % 32] = sum;
  __syncthreads();
  if (line != 0 || channel >= channels) return;
  for (uint32_t i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  y[image * channels + channel] = sum / static_cast<float>(pixels);
}

// method: in the order of ops::Upsampling.
__global__ void upsample_f32(const float* x, float* y, uint32_t h, uint32_t w, uint64_t channels, uint32_t factor,
                             uint32_t method, uint64_t count) {
  begin_kernel();
  const uint64_t out_h = static_cast<uint64_t>(h) * factor, out_w = static_cast<uint64_t>(w) * factor;
  for_each_index(count, [&](uint64_t i) {
    const uint64_t c = i % channels, position = i / channels;
    const Between down(static_cast<uint32_t>(position / out_w % out_h), h, factor, method);
    const Between across(static_cast<uint32_t>(position % out_w), w, factor, method);
    const float* const image = x + position / out_w / out_h * h * w * channels + c;
    const auto pixel = [&](uint64_t row, uint64_t column) { return image[(row * w + column) * channels]; };
    if (method == 0) {
      y[i] = pixel(down.first, across.first);
      return;
    }
    const auto of_row = [&](uint64_t row) {
      return mixed(pixel(row, across.first), pixel(row, across.second), across.share);
    };
    y[i] = mixed(of_row(down.first), of_row(down.second), down.share);
  });
}

__global__ void batch_norm_f32(const float* x, const __grid_constant__ ChannelNorm norm, float* y, uint64_t channels,
                               uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) {
    const uint64_t c = i % channels;
    const auto value = [&](const ChannelValues& of) {
      return channel_value(reinterpret_cast<const uint8_t*>(of.values), of.type, c);
    };
    const float factor = value(norm.gamma) / sqrtf(value(norm.variance) + norm.eps);
    y[i] = (x[i] - value(norm.mean)) * factor + value(norm.beta);
  });
}

// A block a group of channels of an image. Sums are f64, of which each thread has those of every 256th element.
__global__ void group_norm_f32(const float* x, const __grid_constant__ ChannelNorm norm, float* y, uint64_t pixels,
                               uint64_t channels, uint32_t groups) {
  begin_kernel();
  const uint64_t width = channels / groups, count = pixels * width;
  const uint64_t first = blockIdx.x % groups * width, image = blockIdx.x / groups * pixels * channels;
  const auto place = [&](uint64_t i) { return image + i / width * channels + first + i % width; };
  double sum = 0, squares = 0;
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) sum += static_cast<double>(x[place(i)]);
  const double mean = reduce_block(sum, 0.0, Sum()) / static_cast<double>(count);
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const double distance = static_cast<double>(x[place(i)]) - mean;
    squares += distance * distance;
  }
  squares = reduce_block(squares, 0.0, Sum());
  const auto center = static_cast<float>(mean);
  const auto inverse =
      static_cast<float>(1 / sqrt(squares / static_cast<double>(count) + static_cast<double>(norm.eps)));
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const uint64_t c = first + i % width;
    const float gamma = channel_value(reinterpret_cast<const uint8_t*>(norm.gamma.values), norm.gamma.type, c);
    const float beta = channel_value(reinterpret_cast<const uint8_t*>(norm.beta.values), norm.beta.type, c);
    y[place(i)] = (x[place(i)] - center) * inverse * gamma + beta;
  }
}

}  // extern "C"
