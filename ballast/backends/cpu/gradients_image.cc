// The gradient of a convolution's image is a convolution too: of what came back, spread out where the stride was more
// than one, with the weight turned around and its inputs and outputs exchanged.
#include <algorithm>
#include <cstring>

#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/gradients_conv2d.h"
#include "ballast/backends/cpu/kernels.h"

namespace ballast::cpu::gradients {
namespace {

using Image = Conv2dProblem<float>;

constexpr uint64_t kAligned = 16;  // floats of a cache line
uint64_t aligned(uint64_t floats) { return (floats + kAligned - 1) / kAligned * kAligned; }

bool is_empty(const Image& p) {
  return p.groups == 0 || p.c_in == 0 || p.c_out == 0 || p.kernel_h * p.kernel_w == 0 || p.out_h * p.out_w == 0;
}
bool is_spread(const Image& p) { return p.stride_h > 1 || p.stride_w > 1; }

// Without its pointers: they follow from where the scratch is.
Image backward_problem(const Image& p) {
  Image back = p;
  back.bias = back.residual = nullptr;
  back.activation = Activation::kNone;
  back.w = {nullptr, DType::kF32};
  back.c_in = p.c_out, back.c_out = p.c_in;
  back.o_begin = 0, back.o_count = p.c_in;
  back.h = (p.out_h - 1) * p.stride_h + 1, back.width = (p.out_w - 1) * p.stride_w + 1;
  back.out_h = p.h, back.out_w = p.width;
  back.stride_h = back.stride_w = 1;
  // Modulo 2^64, as conv2d computes coordinates.
  back.pad_top = (p.kernel_h - 1) * p.dilation_h - p.pad_top;
  back.pad_left = (p.kernel_w - 1) * p.dilation_w - p.pad_left;
  return back;
}

struct ImageScratch {
  uint64_t spread, weight, conv2d;
};
ImageScratch image_scratch(const Image& p, unsigned threads) {
  if (is_empty(p)) return {};
  const Image back = backward_problem(p);
  const uint64_t spread = is_spread(p) ? aligned(back.n * back.h * back.width * back.c_in) : 0;
  const uint64_t weight = p.c_out * (p.c_in / p.groups) * p.kernel_h * p.kernel_w;
  return {spread, aligned(weight), cpu::conv2d_scratch(back, threads)};
}

void spread_out(const Image& p, const Image& back, const float* dy, float* to, ThreadPool& pool) {
  pool.for_ranges(back.n * back.h, 4, [&](size_t begin, size_t end) {
    for (size_t line = begin; line < end; ++line) {
      const size_t y = line % back.h;
      float* row = to + line * back.width * back.c_in;
      std::memset(row, 0, back.width * back.c_in * sizeof(float));
      if (y % p.stride_h != 0) continue;
      const float* from = dy + (line / back.h * p.out_h + y / p.stride_h) * p.out_w * p.c_out;
      for (size_t x = 0; x < p.out_w; ++x) {
        std::memcpy(row + x * p.stride_w * p.c_out, from + x * p.c_out, p.c_out * sizeof(float));
      }
    }
  });
}

// [group][output][input][tap] -> [group][input][output][last tap - tap]
void turn_weight(const Image& p, float* to) {
  const size_t inputs = p.c_in / p.groups, outputs = p.c_out / p.groups, taps = p.kernel_h * p.kernel_w;
  const std::byte* from = p.w.data;
  for (size_t output = 0; output < p.c_out; ++output) {
    const size_t group = output / outputs;
    for (size_t input = 0; input < inputs; ++input) {
      float* at = to + ((group * inputs + input) * outputs + output % outputs) * taps;
      std::memcpy(at, from, taps * sizeof(float));
      std::reverse(at, at + taps);
      from += taps * sizeof(float);
    }
  }
}

void image_gradient(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool) {
  const Image& p = *gradient.forward;
  if (is_empty(p)) {
    std::fill_n(gradient.dx, p.n * p.h * p.width * p.c_in, 0.0F);
    return;
  }
  const ImageScratch parts = image_scratch(p, pool.size());
  Image back = backward_problem(p);
  float* weight = scratch + parts.spread;
  turn_weight(p, weight);
  if (is_spread(p)) spread_out(p, back, gradient.dy, scratch, pool);
  back.x = is_spread(p) ? scratch : gradient.dy;
  back.y = gradient.dx;
  back.w.data = reinterpret_cast<const std::byte*>(weight);
  cpu::conv2d(back, weight + parts.weight, pool);
}

}  // namespace

void conv2d(const Conv2dGradient<float>& gradient, float* scratch, ThreadPool& pool) {
  if (gradient.dx != nullptr) image_gradient(gradient, scratch, pool);
  if (gradient.dw != nullptr) conv2d_weight(gradient, scratch, pool);
}

uint64_t conv2d_scratch(const Conv2dGradient<float>& gradient, unsigned threads) {
  const Image& p = *gradient.forward;
  const ImageScratch image = gradient.dx != nullptr ? image_scratch(p, threads) : ImageScratch{};
  const uint64_t weight = gradient.dw != nullptr ? conv2d_weight_scratch(p, threads) : 0;
  return std::max(image.spread + image.weight + image.conv2d, weight);
}

}  // namespace ballast::cpu::gradients
