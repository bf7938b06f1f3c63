// kernel_bench [THREADS...] [LEVEL] [PART]: how near the kernels of the backend `cpu` come to what this machine does.
// Prints JSON, one object a line: streaming products beside a plain read of the same bytes, large products beside the
// peak of multiply-adds, both of weights in blocks, what a batch of rows costs beside one, the convolutions of two
// networks, attention. Without arguments: 1 thread and as many as there are, all parts (gemv, gemm, blocks, rows, conv,
// attention, unary).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "ballast/backends/cpu/cpu.h"
#include "ballast/backends/cpu/machine.h"

namespace ballast {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of the best of several runs: what others do on the machine only adds.
double best_seconds(const std::function<void()>& work, double budget = 0.4) {
  double best = 1e9, total = 0;
  for (int run = 0; run < 3 || (total < budget && run < 1000); ++run) {
    const double seconds = seconds_of(work);
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

class Buffer {  // aligned to 64
 public:
  explicit Buffer(size_t floats, float value = 0.01F)
      : data_(static_cast<float*>(std::aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64 + 64))) {
    std::fill_n(data_, floats, value);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* get() const { return data_; }
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }

 private:
  float* data_;
};

// ---------------------------------------------------------------- what the machine does
typedef uint64_t Words __attribute__((vector_size(16)));

// Reads `lines` cache lines as `streams` runs side by side.
uint64_t read_lines(const std::byte* from, size_t lines, size_t streams) {
  Words sums[4] = {};
  const size_t each = lines / streams;
  for (size_t line = 0; line < each; ++line) {
    for (size_t stream = 0; stream < streams; ++stream) {
      const auto* at = reinterpret_cast<const Words*>(from + (stream * each + line) * 64);
      for (size_t i = 0; i < 4; ++i) sums[i] += at[i];
    }
  }
  const Words total = sums[0] + sums[1] + sums[2] + sums[3];
  return total[0] + total[1];
}

void read_all(ThreadPool& pool, const Buffer& buffer, size_t bytes, size_t streams) {
  static std::atomic<uint64_t> sink;
  pool.for_ranges(bytes / 64, 4096, [&](size_t begin, size_t end) {
    sink += read_lines(buffer.bytes() + begin * 64, end - begin, streams);
  });
}

// ---------------------------------------------------------------- products
const KernelTable<float>& kernels() { return kCpuBackend.f32; }

struct Matrix {
  size_t k, n;
};
// GPT-2 small, one token.
constexpr Matrix kDecode[] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};

// A number of every type of weights, and of scales: no subnormal one, which would be slow.
constexpr auto kWeight = std::bit_cast<float>(0x2C2C2C2C);

// Bytes of `elements` of a type, which are whole blocks where it has any.
size_t weight_bytes(DType dtype, size_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  return is_block(dtype) ? elements / info.block_elements * info.block_bytes : elements * info.bits / 8;
}

void multiply(const Buffer& a, const Buffer& c, WeightView w, size_t m, Matrix matrix, WeightLayout layout,
              Numerics numerics, const Buffer& scratch, ThreadPool& pool) {
  GemmTile<float> tile;
  tile.a = a.get();
  tile.c = c.get();
  tile.m = m;
  tile.n = tile.c_stride = matrix.n;
  tile.k = tile.a_stride = matrix.k;
  tile.w = w;
  tile.layout = layout;
  tile.count = layout == WeightLayout::kInOut ? matrix.k : matrix.n;
  tile.numerics = numerics;
  tile.scratch = scratch.bytes();
  kernels().gemm(tile, pool);
}

// As much as gemm asks for a product of m rows of k.
size_t scratch_floats(DType dtype, Numerics numerics, size_t m, size_t k) {
  GemmTile<float> tile;
  tile.m = m;
  tile.k = k;
  tile.w.dtype = dtype;
  tile.layout = WeightLayout::kOutIn;
  tile.numerics = numerics;
  return kernels().gemm_scratch(tile) / sizeof(float);
}

constexpr DType kBlockTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,  DType::kQ5_1,
                                 DType::kQ4K,  DType::kQ5K,  DType::kQ6K,  DType::kIQ4NL, DType::kMXFP4};

// All weights of GPT-2 small, one after the other: nothing of them stays in a cache.
void measure_decode(ThreadPool& pool, DType dtype, WeightLayout layout, size_t m, Numerics numerics = Numerics::kFast) {
  const Matrix head = {768, 50257};
  size_t elements = head.k * head.n;
  for (const Matrix& matrix : kDecode) elements += 12 * matrix.k * matrix.n;
  const size_t bytes = weight_bytes(dtype, elements);
  const Buffer weights(bytes / 4 + 16, kWeight);
  const Buffer a(m * 3072), c(m * head.n), scratch(scratch_floats(dtype, numerics, m, 3072));
  const auto multiply_all = [&] {
    const std::byte* at = weights.bytes();
    const auto next = [&](Matrix matrix) {
      multiply(a, c, {at, dtype}, m, matrix, layout, numerics, scratch, pool);
      at += weight_bytes(dtype, matrix.k * matrix.n);
    };
    for (int layer = 0; layer < 12; ++layer) {
      for (const Matrix& matrix : kDecode) next(matrix);
    }
    next(head);
  };
  // In turns: the machine may be faster at one time than at another.
  double seconds = 1e9, read_seconds = 1e9;
  for (int run = 0; run < 5; ++run) {
    seconds = std::min(seconds, seconds_of(multiply_all));
    for (const size_t streams : {1, 8}) {
      read_seconds = std::min(read_seconds, seconds_of([&] { read_all(pool, weights, bytes, streams); }));
    }
  }
  const double read = static_cast<double>(bytes) / read_seconds * 1e-9;
  const double rate = static_cast<double>(bytes) / seconds * 1e-9;
  fmt::print(
      "{{\"work\":\"gpt2 weights\",\"threads\":{},\"dtype\":\"{}\",\"layout\":\"{}\",\"arithmetic\":\"{}\",\"rows\":{},"
      "\"ms\":{:.2f},\"GB/s\":{:.2f},\"plain_read_GB/s\":{:.2f},\"share\":{:.3f}}}\n",
      pool.size(), dtype_name(dtype), layout == WeightLayout::kInOut ? "in_out" : "out_in",
      kCpuBackend.block_arithmetic(dtype, numerics), m, seconds * 1e3, rate, read, rate / read);
}

void measure_gemm(ThreadPool& pool, size_t m, Matrix matrix, WeightLayout layout, DType dtype, double peak,
                  Numerics numerics = Numerics::kFast) {
  const Buffer weights(matrix.k * matrix.n, kWeight), a(m * matrix.k), c(m * matrix.n);
  const Buffer scratch(scratch_floats(dtype, numerics, m, matrix.k));
  const double seconds = best_seconds([&] {
    multiply(a, c, {weights.bytes(), dtype}, m, matrix, layout, numerics, scratch, pool);
  });
  const double rate = 2e-9 * static_cast<double>(m * matrix.n * matrix.k) / seconds;
  fmt::print(
      "{{\"work\":\"gemm\",\"threads\":{},\"m\":{},\"n\":{},\"k\":{},\"dtype\":\"{}\",\"layout\":\"{}\",\"arithmetic\":"
      "\"{}\","
      "\"ms\":{:.3f},\"GFLOP/s\":{:.1f},\"peak_GFLOP/s\":{:.1f},\"share\":{:.3f}}}\n",
      pool.size(), m, matrix.n, matrix.k, dtype_name(dtype), layout == WeightLayout::kInOut ? "in_out" : "out_in",
      kCpuBackend.block_arithmetic(dtype, numerics), seconds * 1e3, rate, peak, peak > 0 ? rate / peak : 0.0);
}

// ---------------------------------------------------------------- batches of few rows
// Two layers of Llama 3.2 1B, so that weights come from memory.
constexpr Matrix kBatched[] = {{2048, 3072}, {2048, 2048}, {2048, 16384}, {8192, 2048}};

// What a pass with `m` texts costs for each number of texts; `times_one` tells what batching gains.
void measure_rows(ThreadPool& pool, DType dtype, WeightLayout layout) {
  constexpr size_t kRows[] = {1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32};
  constexpr size_t kMost = 32, kLayers = 2;
  size_t elements = 0;
  for (const Matrix& matrix : kBatched) elements += kLayers * matrix.k * matrix.n;
  const Buffer weights(weight_bytes(dtype, elements) / 4 + 16, kWeight);
  size_t scratch_size = 0;
  for (const size_t m : kRows) scratch_size = std::max(scratch_size, scratch_floats(dtype, Numerics::kFast, m, 8192));
  const Buffer a(kMost * 8192), c(kMost * 16384), scratch(scratch_size);
  const auto multiply_all = [&](size_t m) {
    const std::byte* at = weights.bytes();
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (const Matrix& matrix : kBatched) {
        multiply(a, c, {at, dtype}, m, matrix, layout, Numerics::kFast, scratch, pool);
        at += weight_bytes(dtype, matrix.k * matrix.n);
      }
    }
  };
  // In turns: the machine may be faster at one time than at another.
  double best[std::size(kRows)];
  std::fill(std::begin(best), std::end(best), 1e9);
  for (int run = 0; run < 7; ++run) {
    for (size_t i = 0; i < std::size(kRows); ++i) {
      best[i] = std::min(best[i], seconds_of([&] { multiply_all(kRows[i]); }));
    }
  }
  for (size_t i = 0; i < std::size(kRows); ++i) {
    fmt::print(
        "{{\"work\":\"rows\",\"threads\":{},\"dtype\":\"{}\",\"layout\":\"{}\",\"rows\":{},\"ms\":{:.2f},\"times_one\":"
        "{:.2f},"
        "\"GFLOP/s\":{:.1f}}}\n",
        pool.size(), dtype_name(dtype), layout == WeightLayout::kInOut ? "in_out" : "out_in", kRows[i], best[i] * 1e3,
        best[i] / best[0], 2e-9 * static_cast<double>(elements * kRows[i]) / best[i]);
  }
}

// ---------------------------------------------------------------- convolutions
struct Layer {
  size_t size, c_in, c_out, kernel, stride, groups = 1;
  size_t count = 1;
};

std::vector<Layer> resnet34() {
  std::vector<Layer> layers = {{224, 3, 64, 7, 2}, {56, 64, 64, 3, 1, 1, 6}};
  const size_t blocks[] = {4, 6, 3};
  size_t size = 56, channels = 64;
  for (const size_t count : blocks) {
    layers.push_back({size, channels, 2 * channels, 3, 2});
    layers.push_back({size, channels, 2 * channels, 1, 2});
    size /= 2, channels *= 2;
    layers.push_back({size, channels, channels, 3, 1, 1, 2 * count - 1});
  }
  return layers;
}

std::vector<Layer> mobilenet_v2() {
  const size_t rows[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                            {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::vector<Layer> layers = {{224, 3, 32, 3, 2}};
  size_t size = 112, channels = 32;
  for (const auto& [expansion, out, count, first_stride] : rows) {
    for (size_t i = 0; i < count; ++i) {
      const size_t stride = i == 0 ? first_stride : 1, hidden = channels * expansion;
      if (expansion != 1) layers.push_back({size, channels, hidden, 1, 1});
      layers.push_back({size, hidden, hidden, 3, stride, hidden});
      size /= stride;
      layers.push_back({size, hidden, out, 1, 1});
      channels = out;
    }
  }
  layers.push_back({size, channels, 1280, 1, 1});
  return layers;
}

double measure_conv(ThreadPool& pool, const Layer& layer, bool packed) {
  const size_t out = (layer.size + layer.stride - 1) / layer.stride;
  const size_t terms = layer.c_in / layer.groups * layer.kernel * layer.kernel;
  const Buffer x(layer.size * layer.size * layer.c_in), y(out * out * layer.c_out), w(layer.c_out * terms);
  const Buffer bias(layer.c_out);
  Conv2dProblem<float> p{};
  p.x = x.get();
  p.y = y.get();
  p.w.data = w.bytes();
  p.bias = bias.get();
  p.activation = Activation::kRelu;
  p.n = 1;
  p.h = p.width = layer.size;
  p.c_in = layer.c_in, p.c_out = p.o_count = layer.c_out, p.groups = layer.groups;
  p.kernel_h = p.kernel_w = layer.kernel;
  p.out_h = p.out_w = out;
  p.stride_h = p.stride_w = layer.stride;
  p.pad_top = p.pad_left = layer.kernel / 2;
  p.dilation_h = p.dilation_w = 1;
  const Buffer form(kernels().conv2d_packed_bytes(p) / 4);
  if (packed) {
    kernels().conv2d_pack(p, form.bytes(), pool);
    p.w = {form.bytes(), DType::kF32, true};
  }
  const Buffer scratch(kernels().conv2d_scratch(p, pool.size()));
  return best_seconds([&] { kernels().conv2d(p, scratch.get(), pool); }, 0.1);
}

void measure_network(ThreadPool& pool, const char* name, const std::vector<Layer>& layers, bool packed, double peak) {
  double total = 0, multiplications = 0, depthwise = 0;
  for (const Layer& layer : layers) {
    const double seconds = measure_conv(pool, layer, packed) * static_cast<double>(layer.count);
    const size_t out = (layer.size + layer.stride - 1) / layer.stride;
    const double work = static_cast<double>(out * out * layer.c_out * (layer.c_in / layer.groups) * layer.kernel *
                                            layer.kernel * layer.count);
    total += seconds;
    multiplications += work;
    if (layer.groups > 1) depthwise += seconds;
    if (packed) {
      fmt::print(
          "{{\"work\":\"layer\",\"network\":\"{}\",\"threads\":{},\"size\":{},\"in\":{},\"out\":{},\"kernel\":{},"
          "\"stride\":{},\"groups\":{},\"count\":{},\"ms\":{:.3f},\"GFLOP/s\":{:.1f}}}\n",
          name, pool.size(), layer.size, layer.c_in, layer.c_out, layer.kernel, layer.stride, layer.groups, layer.count,
          seconds * 1e3, 2e-9 * work / seconds);
    }
  }
  fmt::print(
      "{{\"work\":\"convolutions\",\"network\":\"{}\",\"threads\":{},\"packed\":{},\"ms\":{:.2f},\"depthwise_ms\":{:."
      "2f},"
      "\"GFLOP/s\":{:.1f},\"share\":{:.3f}}}\n",
      name, pool.size(), packed, total * 1e3, depthwise * 1e3, 2e-9 * multiplications / total,
      peak > 0 ? 2e-9 * multiplications / total / peak : 0.0);
}

// ---------------------------------------------------------------- attention, GPT-2 small, one layer
void measure_attention(ThreadPool& pool, size_t queries, size_t past, DType dtype) {
  const size_t heads = 12, width = 64, capacity = past + queries;
  const Buffer q(queries * heads * width), keys(heads * capacity * width, 0), values(heads * capacity * width, 0);
  const Buffer out(queries * heads * width);
  AttentionProblem<float> p{};
  p.q = q.get();
  p.keys = keys.bytes();
  p.values = values.bytes();
  p.cache_dtype = dtype;
  p.out = out.get();
  p.q_count = queries;
  p.q_heads = p.kv_heads = heads;
  p.head_dim = width;
  p.q_stride = heads * width;
  p.capacity = capacity;
  p.first_position = past;
  p.scale = 0.125F;
  const double seconds = best_seconds([&] { kernels().attention(std::span(&p, 1), pool); });
  const double pairs = static_cast<double>(queries * past + queries * (queries + 1) / 2);
  fmt::print(
      "{{\"work\":\"attention\",\"threads\":{},\"queries\":{},\"past\":{},\"cache\":\"{}\",\"us\":{:.1f},"
      "\"GFLOP/s\":{:.1f}}}\n",
      pool.size(), queries, past, dtype_name(dtype), seconds * 1e6, 4e-9 * pairs * heads * width / seconds);
}

void measure_unary(ThreadPool& pool, UnaryOp op, const char* name) {
  const size_t count = 64 * 3072;
  const Buffer x(count, 0.5F), y(count);
  const double seconds = best_seconds([&] { kernels().unary(op, 0, x.get(), y.get(), count, pool); }, 0.1);
  fmt::print("{{\"work\":\"{}\",\"threads\":{},\"ns_per_element\":{:.3f}}}\n", name, pool.size(),
             seconds * 1e9 / static_cast<double>(count));
}

void measure(unsigned threads, const std::string& only) {
  ThreadPool pool(threads);
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  const double peak = measure_machine(pool).flops * 1e-9;
  fmt::print("{{\"work\":\"machine\",\"threads\":{},\"level\":\"{}\",\"peak_GFLOP/s\":{:.1f}}}\n", pool.size(),
             kCpuBackend.level(), peak);
  if (wanted("gemv")) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) measure_decode(pool, dtype, layout, 1);
      measure_decode(pool, DType::kF32, layout, 4);
    }
  }
  if (wanted("gemm")) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const Matrix& matrix : kDecode) measure_gemm(pool, 512, matrix, layout, DType::kF32, peak);
      for (const DType dtype : {DType::kF16, DType::kBF16}) measure_gemm(pool, 512, kDecode[2], layout, dtype, peak);
      measure_gemm(pool, 64, kDecode[2], layout, DType::kF32, peak);
      measure_gemm(pool, 16, kDecode[2], layout, DType::kF32, peak);
    }
  }
  if (wanted("blocks")) {
    for (const DType dtype : kBlockTypes) measure_decode(pool, dtype, WeightLayout::kOutIn, 1);
    measure_decode(pool, DType::kQ4_0, WeightLayout::kOutIn, 4);
    measure_decode(pool, DType::kQ4_0, WeightLayout::kOutIn, 1, Numerics::kExact);
    for (const Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
      for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ6K}) {
        measure_gemm(pool, 512, kDecode[2], WeightLayout::kOutIn, dtype, peak, numerics);
      }
    }
  }
  if (wanted("rows")) {
    for (const DType dtype :
         {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4K, DType::kQ6K, DType::kBF16, DType::kF16, DType::kF32}) {
      measure_rows(pool, dtype, WeightLayout::kOutIn);
    }
    for (const DType dtype : {DType::kBF16, DType::kF32}) measure_rows(pool, dtype, WeightLayout::kInOut);
  }
  if (wanted("conv")) {
    for (const bool packed : {true, false}) {
      measure_network(pool, "resnet34", resnet34(), packed, peak);
      measure_network(pool, "mobilenet_v2", mobilenet_v2(), packed, peak);
    }
  }
  if (wanted("attention")) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      measure_attention(pool, 1, 1023, dtype);
      measure_attention(pool, 512, 0, dtype);
    }
  }
  if (wanted("unary")) {
    measure_unary(pool, UnaryOp::kRelu, "relu");
    measure_unary(pool, UnaryOp::kGeluErf, "gelu_erf");
    measure_unary(pool, UnaryOp::kGeluTanh, "gelu_tanh");
  }
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  std::string only;
  std::vector<unsigned> threads;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const bool number = argument.find_first_not_of("0123456789") == std::string::npos;
    if (number && !argument.empty()) threads.push_back(static_cast<unsigned>(std::stoul(argument)));
    else if (!ballast::use_cpu_level(argument)) only = argument;
  }
  if (threads.empty()) threads = {1, std::max(1U, std::thread::hardware_concurrency())};
  for (const unsigned number : threads) ballast::measure(number, only);
  return 0;
}
