// A real GPU, where there is one; `make test-cuda` says that there must be.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/backends/cuda/device.h"
#include "ballast/backends/cuda/kernel_image.h"
#include "ballast/backends/cuda/launch.h"
#include "ballast/device/host_values.h"
#include "tests/support/ops_testing.h"
#include "tests/support/random_blocks.h"
#include "tests/support/recorded_models.h"
#include "tests/support/same_bits.h"
#include "tests/support/whole_past.h"

namespace ballast::testing {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = find_backend("cuda")->find_devices();
    if (found) return;
    if (std::getenv("BALLAST_NEEDS_CUDA") != nullptr) FAIL() << found.error().message;
    GTEST_SKIP() << found.error().message;
  }
};

TEST_F(Gpu, IsTheDefaultAndTellsOfItself) {
  EXPECT_EQ(default_backend().name, "cuda");
  EXPECT_EQ(default_backend(true).name, "cpu") << "it does not train";
  Lab lab(*find_backend("cuda"));
  const Device& device = lab.workspace.queue().device();
  EXPECT_TRUE(device.name().starts_with("cuda:0, ")) << device.name();
  EXPECT_GT(device.limits().memory, uint64_t{1} << 30);
  const cuda::Facts& facts = cuda::facts(lab.context);
  EXPECT_GE(facts.major, 7);
  EXPECT_GT(facts.multiprocessors, 0U);
  EXPECT_GE(facts.shared_bytes, 48U << 10);
}

// Else kernels would no longer overlap, to the same numbers but more slowly, and nobody would notice.
TEST_F(Gpu, LoadsCodeForHopperThatWaitsByItself) {
  if (std::getenv("CUDA_FORCE_PTX_JIT") != nullptr) GTEST_SKIP() << "the driver is told to compile PTX";
  Lab lab(*find_backend("cuda"));
  const cuda::Facts& facts = cuda::facts(lab.context);
  const bool is_hopper = facts.major == 9 && facts.minor == 0;
  if (!is_hopper || cuda::kernel_architectures().find("sm_90a") == std::string_view::npos) {
    GTEST_SKIP() << "another GPU, or kernels for others";
  }
  const auto function = cuda::queue_of(lab.context).cuda_device().function(cuda::Kernel::fill_f32);
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_TRUE((*function)->waits_by_itself);
}

TEST_F(Gpu, IsNotChosenForWhatMayBeWrittenForTheHost) {
  const std::string path = recorded_model_path("gpt_micro");
  LoadOptions options;
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cuda");
  options.extend = [](Registry&) { return Status(); };
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cpu");
  options.backend = "cuda";
  EXPECT_EQ(load_or_die(path, options)->backend().name, "cuda");
}

TEST_F(Gpu, IsNotForProcessesThatAreForked) {
  ASSERT_TRUE(find_backend("cuda")->open_device());
  const auto try_it = [] {
    const auto device = find_backend("cuda")->open_device();
    std::fprintf(stderr, "%s\n", device ? "it opens" : device.error().message.c_str());
    std::_Exit(device ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "fast");  // forks, and does not start anew
  EXPECT_EXIT(try_it(), ::testing::ExitedWithCode(0), "after fork");
}

// More rows and sequences than a grid is high.
TEST_F(Gpu, AttendsInManySequences) {
  constexpr uint64_t kSequences = 70'000;
  Lab lab(*find_backend("cuda"));
  std::vector<float> qkv(kSequences * 12);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i % 1009);
  const auto before = lab.workspace.queue().device().fallbacks();
  const Tensor x = *lab.workspace.from(qkv, {kSequences, 12});
  const ops::AttentionConfig config{.q_heads = 1, .kv_heads = 1, .head_dim = 4, .sequences = kSequences};
  const auto y = ops::attention(lab.context, config, x);
  ASSERT_TRUE(y) << y.error().message;
  const auto values = HostValues<float>::of(*y);
  ASSERT_TRUE(values) << values.error().message;
  for (uint64_t row = 0; row < kSequences; ++row) {
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ((*values)[row * 4 + i], qkv[row * 12 + 8 + i]) << row;
  }
  EXPECT_EQ(lab.workspace.queue().device().fallbacks(), before) << "the device computed it";
}

// A text's queries, keys and values, and what attention makes of them in passes of so many rows each. What of the pages
// is not written yet is NaN.
struct AttendedText {
  ops::AttentionConfig config;
  DType cache = DType::kF32;
  std::vector<float> qkv;

  AttendedText(const ops::AttentionConfig& heads, DType dtype, uint64_t rows) : config(heads), cache(dtype) {
    for (const double x : random_values(rows, rows * width())) qkv.push_back(static_cast<float>(x));
  }
  uint64_t width() const { return config.q_width() + 2 * config.kv_width(); }
  uint64_t rows() const { return qkv.size() / width(); }
  float& key(uint64_t row, uint64_t i) { return qkv[row * width() + config.q_width() + i]; }
  float& value(uint64_t row, uint64_t i) { return key(row, config.kv_width() + i); }

  std::vector<float> attend(const std::vector<uint64_t>& passes) const {
    Lab lab(*find_backend("cuda"));
    Queue& queue = lab.workspace.queue();
    const KvPast past = whole_past({.layers = 1,
                                    .kv_heads = config.kv_heads,
                                    .head_dim = config.head_dim,
                                    .most_positions = rows(),
                                    .dtype = cache},
                                   queue.device());
    for (const auto& page : past.pages[0]) queue.fill({page.get(), 0}, page->bytes(), std::byte{0xFF});
    std::vector<float> all;
    for (const uint64_t count : passes) {
      const uint64_t row = all.size() / config.q_width();
      const KvRows part{&past, row, count};
      const auto begin = qkv.begin() + static_cast<std::ptrdiff_t>(row * width());
      const std::vector<float> some(begin, begin + static_cast<std::ptrdiff_t>(count * width()));
      const Tensor x = *lab.workspace.from(some, {count, width()});
      const auto y = ops::attention_decode_cache(lab.context, config, x, std::span(&part, 1), 0);
      const auto values = HostValues<float>::of(*y);
      all.insert(all.end(), values->begin(), values->end());
    }
    return all;
  }
  std::vector<float> attend() const { return attend({rows()}); }
};

bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Enough heads and rows that blocks have many queries where the text comes at once.
std::vector<AttendedText> attended_texts() {
  std::vector<AttendedText> texts;
  for (const DType cache : {DType::kF32, DType::kF16}) {
    texts.emplace_back(ops::AttentionConfig{.q_heads = 64, .kv_heads = 64, .head_dim = 64}, cache, 300);
    texts.emplace_back(ops::AttentionConfig{.q_heads = 64, .kv_heads = 64, .head_dim = 33, .window = 70}, cache, 300);
    texts.emplace_back(ops::AttentionConfig{.q_heads = 64, .kv_heads = 16, .head_dim = 80, .soft_cap = 2}, cache, 300);
    texts.emplace_back(ops::AttentionConfig{.q_heads = 64, .kv_heads = 32, .head_dim = 256}, cache, 300);
  }
  return texts;
}

TEST_F(Gpu, AttendsWithTheSameBitsHoweverATextIsDivided) {
  for (const AttendedText& text : attended_texts()) {
    SCOPED_TRACE(text.config.head_dim);
    const std::vector<float> whole = text.attend();
    EXPECT_TRUE(have_same_bits(whole, text.attend(std::vector<uint64_t>(text.rows(), 1))));
    EXPECT_TRUE(have_same_bits(whole, text.attend({63, 2, 100, 20, 115})));
  }
}

// Also where they share a chunk.
TEST_F(Gpu, AttendsAsIfNothingWereBehindAPosition) {
  for (AttendedText& text : attended_texts()) {
    SCOPED_TRACE(text.config.head_dim);
    const std::vector<float> whole = text.attend();
    const uint64_t position = 100, behind = position * text.config.q_width();
    for (const bool is_key : {true, false}) {
      AttendedText broken = text;
      (is_key ? broken.key(position, 1) : broken.value(position, 1)) = std::numeric_limits<float>::quiet_NaN();
      if (!is_key) broken.value(position + 1, 2) = std::numeric_limits<float>::infinity();
      for (const auto& passes : {std::vector<uint64_t>{300}, std::vector<uint64_t>{101, 2, 197}}) {
        const std::vector<float> values = broken.attend(passes);
        EXPECT_TRUE(have_same_bits(std::span(whole).first(behind), std::span(values).first(behind)));
        EXPECT_TRUE(std::isnan(values[behind + 1])) << "the query at that position sees it";
      }
    }
  }
}

TEST_F(Gpu, CopiesWhatItIsGiven) {
  Lab lab(*find_backend("cuda"));
  std::vector<float> values(50'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16777213);
  auto expected = values;
  const auto x = lab.workspace.from(values, {values.size()});
  std::ranges::fill(values, -1.0F);  // may change at once
  ASSERT_TRUE(x) << x.error().message;
  const auto y = lab.workspace.copy(*x);
  ASSERT_TRUE(y) << y.error().message;
  const auto copied = HostValues<float>::of(*y);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(std::ranges::equal(*copied, expected));
}

TEST_F(Gpu, RunsKernels) {
  Lab lab(*find_backend("cuda"));
  Tensor y = lab.tensor(std::vector<double>(1000, 1), {1000});
  ASSERT_TRUE(cuda::launch(lab.context, cuda::Kernel::fill_f32, {.grid = {4}, .block = {128}}, cuda::device_address(y),
                           2.5F, uint64_t{999}));
  const auto values = values_of(y);
  EXPECT_EQ(values[0], 2.5);
  EXPECT_EQ(values[998], 2.5);
  EXPECT_EQ(values[999], 1);
}

TEST_F(Gpu, RefusesArgumentsThatAreNotTheKernels) {
  Lab lab(*find_backend("cuda"));
  const Tensor y = lab.tensor({1}, {1});
  EXPECT_FALSE(cuda::launch(lab.context, cuda::Kernel::fill_f32, {}, cuda::device_address(y), 1.0, uint32_t{1}));
}

TEST_F(Gpu, SaysThatItsMemoryIsTooSmallAndGoesOn) {
  Lab lab(*find_backend("cuda"));
  Device& device = lab.workspace.queue().device();
  const auto memory = device.allocate(device.limits().memory + (1 << 20));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_TRUE(lab.workspace.from(std::vector<float>{1, 2}, {2}));
}

TEST_F(Gpu, HasParametersOnceForAllQueues) {
  const std::vector<double> values = random_values(1, 1 << 20);
  const auto store = make_store({make_param("w", DType::kF32, {1024, 1024}, values)});
  Lab first(*find_backend("cuda")), second(*find_backend("cuda"));
  const auto a = cuda::weights(first.context, param_of(*store, "w"));
  const auto b = cuda::weights(second.context, param_of(*store, "w"), {.first = 1, .count = 1});
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_EQ(a->address + 4096, b->address);
}

// ---------------------------------------------------------------- products
MemoryParam random_weight(DType dtype, uint64_t n, uint64_t k) {
  if (!is_block(dtype)) return make_param("w", dtype, {n, k}, random_values(3, n * k));
  MemoryParam param;
  param.info.name = "w";
  param.info.dtype = dtype;
  param.info.shape = {n, k};
  param.payload = random_blocks(dtype, n * k, 3);
  param.info.byte_size = param.payload.size();
  return param;
}

struct ProductShape {
  uint64_t k, n;
  bool has_ends;  // bias, activation, residual
};

// Rows [first, first + count) of values that have `width` of them in each.
Tensor some_rows(Lab& lab, const std::vector<double>& values, uint64_t first, uint64_t count, uint64_t width) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * width);
  return lab.tensor({begin, begin + static_cast<std::ptrdiff_t>(count * width)}, {count, width});
}

// Numbers of rows have kernels of their own, down to other instructions of the tensor cores: all must agree.
void expect_rows_as_alone(DType dtype, Numerics numerics, const ProductShape& shape) {
  constexpr uint64_t kRows = 301;
  const auto& [k, n, has_ends] = shape;
  Lab lab(*find_backend("cuda"));
  lab.context.numerics = numerics;
  const auto store =
      make_store({random_weight(dtype, n, k), make_param("bias", DType::kF32, {n}, random_values(5, n))});
  const Param weight = param_of(*store, "w"), bias = param_of(*store, "bias");
  std::vector<double> x = random_values(7, kRows * k);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i * 7919 % 13) - 6);
  const std::vector<double> residual = random_values(9, kRows * n);
  const auto products = [&](uint64_t first, uint64_t count) {
    const Tensor added = some_rows(lab, residual, first, count, n);
    ops::LinearOptions options{.layout = WeightLayout::kOutIn};
    if (shape.has_ends) {
      options.bias = &bias;
      options.activation = Activation::kSilu;
      options.residual = &added;
    }
    const auto y = ops::linear(lab.context, some_rows(lab, x, first, count, k), weight, options);
    EXPECT_TRUE(y) << y.error().message;
    const auto values = HostValues<float>::of(*y);
    EXPECT_TRUE(values) << values.error().message;
    return std::vector<float>(values->begin(), values->end());
  };
  const std::vector<float> all = products(0, kRows);
  const std::pair<uint64_t, uint64_t> some[] = {{0, 1},  {300, 1},  {7, 3},   {40, 4},    {13, 16},
                                                {9, 17}, {100, 64}, {33, 65}, {200, 101}, {1, 300}};
  for (const auto& [first, count] : some) {
    const std::span<const float> among(all.data() + first * shape.n, count * shape.n);
    EXPECT_TRUE(same_bits(products(first, count), among)) << count << " rows from " << first << " on, of " << shape.k;
  }
}

TEST_F(Gpu, GivesARowTheSameBitsAloneAndAmongOthers) {
  std::vector<DType> types = dequantizable_types();
  types.insert(types.end(), {DType::kF32, DType::kF16, DType::kBF16});
  for (const DType dtype : types) {
    SCOPED_TRACE(dtype_name(dtype));
    const uint64_t block = is_block(dtype) ? dtype_info(dtype).block_elements : 1;
    // Whole segments of 256 terms and many outputs; less, and a number of outputs that is odd.
    const ProductShape shapes[] = {{1280, 3500, false}, {1000 - 1000 % block, 603, true}};
    for (const ProductShape& shape : shapes) {
      for (const Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
        expect_rows_as_alone(dtype, numerics, shape);
      }
    }
  }
}

// Products of windows, which are split where they are multiplied.
struct ConvolvedImages {
  static constexpr uint64_t kSide = 70, kChannels = 32;
  uint64_t outputs;
  DType dtype;
  std::vector<double> pixels = random_values(1, 2 * kSide * kSide * kChannels);
  std::vector<double> residual = random_values(2, 2 * kSide * kSide * outputs);

  // Of `count` images from `first` on, each of them finished by bias, residual and relu.
  std::vector<double> convolve(Lab& lab, uint64_t window, uint64_t first, uint64_t count) const {
    const auto store = make_store({make_param("weight", dtype, {outputs, kChannels, window, window},
                                              random_values(3, outputs * kChannels * window * window)),
                                   make_param("bias", DType::kF32, {outputs}, random_values(4, outputs))});
    const Param weight = param_of(*store, "weight"), bias = param_of(*store, "bias");
    const auto part = [&](const std::vector<double>& all, uint64_t channels) {
      const auto of_image = static_cast<ptrdiff_t>(kSide * kSide * channels);
      const auto begin = all.begin() + static_cast<ptrdiff_t>(first) * of_image;
      return lab.tensor({begin, begin + static_cast<ptrdiff_t>(count) * of_image}, {count, kSide, kSide, channels});
    };
    const Tensor x = part(pixels, kChannels), added = part(residual, outputs);
    const uint64_t pad = window / 2;
    ops::Conv2dParams params{.pad_top = pad, .pad_bottom = pad, .pad_left = pad, .pad_right = pad};
    params.activation = Activation::kRelu;
    params.residual = &added;
    const auto y = ops::conv2d(lab.context, x, weight, &bias, params);
    EXPECT_TRUE(y) << y.error().message;
    return values_of(*y);
  }
};

// One image has few blocks, or segments with blocks of their own; two have many.
TEST_F(Gpu, ConvolvesImagesToTheSameBitsAloneAndTogether) {
  Lab lab(*find_backend("cuda"));
  const auto before = lab.workspace.queue().device().fallbacks();
  for (const uint64_t outputs : {64, 256}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(fmt::format("{} outputs, {}", outputs, dtype_name(dtype)));
      const ConvolvedImages images{outputs, dtype};
      std::vector<double> alone = images.convolve(lab, 3, 0, 1);
      const std::vector<double> second = images.convolve(lab, 3, 1, 1);
      alone.insert(alone.end(), second.begin(), second.end());
      EXPECT_TRUE(images.convolve(lab, 3, 0, 2) == alone);
    }
  }
  EXPECT_EQ(lab.workspace.queue().device().fallbacks(), before) << "the device computed it";
}

TEST_F(Gpu, ConvolvesManyPositionsAsTheHostDoes) {
  Lab lab(*find_backend("cuda")), host(*find_backend("cpu"));
  const ConvolvedImages images{256, DType::kBF16};
  const std::vector<double> values = images.convolve(lab, 3, 0, 2), expected = images.convolve(host, 3, 0, 2);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-3) << i;
}

// Where a share is 0, what it would be multiplied by does not matter.
TEST_F(Gpu, EnlargesInfinitePixels) {
  Lab lab(*find_backend("cuda")), host(*find_backend("cpu"));
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> pixels = {1, infinite, 2, 3};
  for (const auto method : {ops::Upsampling::kBilinear, ops::Upsampling::kBilinearAlignedCorners}) {
    const auto y = ops::upsample2d(lab.context, lab.tensor(pixels, {1, 2, 2, 1}), 3, method);
    const auto expected = ops::upsample2d(host.context, host.tensor(pixels, {1, 2, 2, 1}), 3, method);
    ASSERT_TRUE(y && expected);
    const std::vector<double> found = values_of(*y), wanted = values_of(*expected);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isfinite(found[i]), std::isfinite(wanted[i])) << i;
  }
}

}  // namespace
}  // namespace ballast::testing
