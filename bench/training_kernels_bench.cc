// training_kernels_bench [THREADS...] [PART]: the kernels of training steps at the shapes of the three networks that
// docs/performance.md compares: an MLP 784-128-10 and a CNN 32-64 (batch 64), a GPT of width 256 (batch 8, context 256,
// vocabulary 4096). Prints JSON, one object a line. Without arguments: 1 thread and as many as there are.
//
// The best of many runs counts: what others do on the machine only adds. With one thread it is processor time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ballast/backends/cpu/cpu.h"

namespace ballast {
namespace {

double now(bool processor_time) {
  timespec time{};
  clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Buffer {  // aligned to 64, filled with small numbers that differ
 public:
  explicit Buffer(size_t floats) : data_(static_cast<float*>(std::aligned_alloc(64, (floats * 4 + 127) / 64 * 64))) {
    for (size_t i = 0; i < floats; ++i) data_[i] = 0.01F * static_cast<float>(i * 7919 % 23) - 0.1F;
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* get() const { return data_; }

 private:
  float* data_;
};

class Bench {
 public:
  Bench(unsigned threads, std::string part) : pool_(threads), part_(std::move(part)) {}

  void run() {
    if (wanted("products")) products();
    if (wanted("convolutions")) convolutions();
    if (wanted("attention")) attention();
    if (wanted("rows")) rows();
    if (wanted("elements")) elements();
  }

 private:
  bool wanted(const char* part) const { return part_.empty() || part_ == part; }

  void measure(const std::string& work, double multiplications, const std::function<void()>& body) {
    double best = 1e9, total = 0;
    const bool alone = pool_.size() == 1;
    for (int round = 0; round < 5 || (total < 0.4 && round < 2000); ++round) {
      const double start = now(alone);
      body();
      const double seconds = now(alone) - start;
      best = std::min(best, seconds);
      total += seconds;
    }
    fmt::print("{{\"work\":\"{}\",\"threads\":{},\"ms\":{:.4f},\"GFLOP/s\":{:.1f}}}\n", work, pool_.size(), best * 1e3,
               2e-9 * multiplications / best);
    std::fflush(stdout);
  }

  // ---------------------------------------------------------------- y = x w, dx = dy w^T, dw = x^T dy
  void linear(size_t m, size_t k, size_t n) {
    const Buffer x(m * k), w(k * n), y(m * n), dx(m * k), dw(k * n);
    const auto work = static_cast<double>(m * k * n);
    const std::string shape = fmt::format("{}x{}x{}", m, k, n);
    GemmTile<float> tile;
    tile.a = x.get(), tile.c = y.get(), tile.m = m, tile.n = tile.c_stride = n, tile.k = tile.a_stride = tile.count = k;
    tile.w.data = reinterpret_cast<const std::byte*>(w.get());
    measure("linear " + shape, work, [&] { kernels_.gemm(tile, pool_); });
    GemmTile<float> back;
    back.a = y.get(), back.c = dx.get(), back.m = m, back.n = back.c_stride = back.count = k;
    back.k = back.a_stride = n;
    back.w = tile.w;
    back.layout = WeightLayout::kOutIn;
    measure("linear dx " + shape, work, [&] { kernels_.gemm(back, pool_); });
    const TransposedProduct<float> product{x.get(), y.get(), dw.get(), m, k, n, false};
    const Buffer scratch(kernels_.gradients.transposed_product_scratch(product));
    measure("linear dw " + shape, work, [&] { kernels_.gradients.transposed_product(product, scratch.get(), pool_); });
  }
  void products() {
    for (const auto& [m, k, n] : {std::array<size_t, 3>{64, 784, 128},
                                  {64, 128, 10},
                                  {64, 3136, 128},
                                  {2048, 256, 768},
                                  {2048, 256, 256},
                                  {2048, 256, 1024},
                                  {2048, 1024, 256},
                                  {2048, 256, 4096}}) {
      linear(m, k, n);
    }
  }

  // ---------------------------------------------------------------- convolutions 3x3
  void convolution(size_t size, size_t c_in, size_t c_out) {
    const size_t pixels = 64 * size * size;
    const Buffer x(pixels * c_in), w(c_out * c_in * 9), y(pixels * c_out), dx(pixels * c_in), dw(c_out * c_in * 9);
    Conv2dProblem<float> p{};
    p.x = x.get(), p.y = y.get(), p.w.data = reinterpret_cast<const std::byte*>(w.get());
    p.n = 64, p.h = p.width = p.out_h = p.out_w = size, p.groups = 1;
    p.c_in = c_in, p.c_out = p.o_count = c_out, p.kernel_h = p.kernel_w = 3;
    p.stride_h = p.stride_w = p.pad_top = p.pad_left = p.dilation_h = p.dilation_w = 1;
    const std::string shape = fmt::format("{}x{} {}->{}", size, size, c_in, c_out);
    const auto work = static_cast<double>(pixels * c_in * c_out * 9);
    const Buffer scratch(kernels_.conv2d_scratch(p, pool_.size()));
    measure("conv2d " + shape, work, [&] { kernels_.conv2d(p, scratch.get(), pool_); });
    for (const bool image : {true, false}) {
      const Conv2dGradient<float> gradient{&p, y.get(), image ? dx.get() : nullptr, image ? nullptr : dw.get(), false};
      const Buffer room(kernels_.gradients.conv2d_scratch(gradient, pool_.size()));
      measure((image ? "conv2d dx " : "conv2d dw ") + shape, work,
              [&] { kernels_.gradients.conv2d(gradient, room.get(), pool_); });
    }
  }
  void convolutions() {
    convolution(28, 1, 32);
    convolution(14, 32, 64);
    convolution(28, 32, 64);
    const size_t size = 28, c = 32;
    const Buffer x(64 * size * size * c), dx(64 * size * size * c), y(64 * size * size * c / 4);
    const Pool2dProblem<float> p{x.get(), y.get(), 64, size, size, c, size / 2, size / 2, 2, 2, 2, 2, 0, 0};
    measure("max_pool2d 28x28 32", 0, [&] { kernels_.max_pool2d(p, pool_); });
    measure("max_pool2d gradient 28x28 32", 0, [&] { kernels_.gradients.max_pool2d(p, y.get(), dx.get(), pool_); });
  }

  // ---------------------------------------------------------------- attention
  void attention() {
    for (const size_t heads : {4, 8}) {
      const size_t length = 256, width = 256, sequences = 8;
      const Buffer qkv(sequences * length * 3 * width), dqkv(sequences * length * 3 * width);
      const Buffer out(sequences * length * width), dout(sequences * length * width);
      const auto pairs = static_cast<double>(sequences * length * (length + 1) / 2);
      const AttentionGradient<float> p{qkv.get(), out.get(), dout.get(),    dqkv.get(), sequences, length,
                                       heads,     heads,     width / heads, true,       0.125F};
      const Buffer scratch(kernels_.gradients.attention_scratch(p, pool_.size()));
      measure(fmt::format("attention gradient {} heads", heads), 5 * pairs * width,
              [&] { kernels_.gradients.attention(p, scratch.get(), pool_); });
    }
  }

  // ---------------------------------------------------------------- rows
  void rows() {
    const size_t count = 2048, width = 256, classes = 4096;
    const GradientKernels<float>& g = kernels_.gradients;
    const Buffer x(count * width), dy(count * width), dx(count * width), gamma(width), dgamma(width), dbeta(width);
    const NormProblem<float> norm{x.get(), dx.get(), gamma.get(), gamma.get(), count, width, 1e-5F};
    measure("layer_norm 2048x256", 0, [&] { kernels_.layer_norm(norm, pool_); });
    const NormGradient<float> back{x.get(),     dy.get(), gamma.get(), dx.get(), dgamma.get(),
                                   dbeta.get(), count,    width,       1e-5F,    false};
    measure("layer_norm gradient 2048x256", 0, [&] { g.layer_norm(back, pool_); });
    const Buffer logits(count * classes), dlogits(count * classes), losses(count);
    std::vector<uint32_t> labels(count), tokens(count);
    for (size_t i = 0; i < count; ++i) labels[i] = tokens[i] = static_cast<uint32_t>(i * 7919 % classes);
    const CrossEntropyProblem<float> entropy{logits.get(), labels.data(), nullptr, losses.get(), count, classes, ~0U};
    measure("cross_entropy 2048x4096", 0, [&] { g.cross_entropy(entropy, pool_); });
    measure("cross_entropy gradient 2048x4096", 0,
            [&] { g.cross_entropy_gradient(entropy, 1e-3F, dlogits.get(), pool_); });
    const Buffer table(classes * width);
    measure("column_sums 2048x1024", 0, [&] { g.column_sums(logits.get(), table.get(), 2048, 1024, false, pool_); });
    measure("scatter_rows 2048x256", 0,
            [&] { g.scatter_rows(tokens.data(), dy.get(), table.get(), count, width, pool_); });
  }

  // ---------------------------------------------------------------- elements
  void adam(size_t count) {
    const Buffer p(count), g(count), m(count), v(count);
    std::fill_n(v.get(), count, 0.01F);
    const AdamUpdate<float> update{p.get(), g.get(), m.get(), v.get(), count, 1e-9, 0.9,
                                   0.999,   1e-8,    0.01,    0.1,     1e-3,  true};
    measure(fmt::format("adamw {}", count), 0, [&] { kernels_.gradients.adam(update, pool_); });
    const SgdUpdate<float> sgd{p.get(), g.get(), nullptr, count, 1e-9, 0, 0, false};
    measure(fmt::format("sgd {}", count), 0, [&] { kernels_.gradients.sgd(sgd, pool_); });
  }
  void elements() {
    adam(101770);
    adam(5300000);
    const size_t count = 2048 * 1024;
    const Buffer x(count), dy(count), dx(count);
    measure("gelu_tanh 2048x1024", 0, [&] { kernels_.unary(UnaryOp::kGeluTanh, 0, x.get(), dx.get(), count, pool_); });
    measure("gelu_tanh gradient 2048x1024", 0,
            [&] { kernels_.gradients.unary(UnaryOp::kGeluTanh, 0, x.get(), dy.get(), dx.get(), count, pool_); });
    measure("gelu_erf gradient 2048x1024", 0,
            [&] { kernels_.gradients.unary(UnaryOp::kGeluErf, 0, x.get(), dy.get(), dx.get(), count, pool_); });
    measure("relu gradient 2048x1024", 0,
            [&] { kernels_.gradients.unary(UnaryOp::kRelu, 0, x.get(), dy.get(), dx.get(), count, pool_); });
    measure("dropout 2048x1024", 0, [&] { kernels_.gradients.dropout(x.get(), dx.get(), count, 0.1, 1, pool_); });
    measure("square_sum 2048x1024", 0, [&] { kernels_.gradients.square_sum(x.get(), count, pool_); });
  }

  const KernelTable<float>& kernels_ = kCpuBackend.f32;
  ThreadPool pool_;
  std::string part_;
};

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  std::string part;
  std::vector<unsigned> threads;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const bool number = argument.find_first_not_of("0123456789") == std::string::npos;
    if (number && !argument.empty()) threads.push_back(static_cast<unsigned>(std::stoul(argument)));
    else part = argument;
  }
  if (threads.empty()) threads = {1, std::max(1U, std::thread::hardware_concurrency())};
  for (const unsigned number : threads) ballast::Bench(number, part).run();
  return 0;
}
