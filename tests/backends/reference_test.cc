// The reference against numbers that were worked out by hand or by another program (Python's math), so that the measure
// of the other backends is itself measured. Every functional, in f32 and in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ballast/ops/metric.h"
#include "ballast/ops/rotary_order.h"
#include "tests/support/ops_testing.h"
#include "tests/support/whole_past.h"

namespace ballast {
namespace {

using testing::Lab;
using testing::make_param;
using testing::values_of;

class Reference : public ::testing::TestWithParam<DType> {
 protected:
  Tensor tensor(const std::vector<double>& values, const Dims& dims) { return lab.tensor(values, dims, GetParam()); }

  // One parameter at a time, in a store that lives as long as the test.
  const Param& param(const Shape& shape, const std::vector<double>& values, DType dtype = DType::kF32) {
    std::vector<MemoryParam> params;
    params.push_back(make_param("p", dtype, shape, values));
    stores.push_back(testing::make_store(std::move(params)));
    kept.push_back(std::make_unique<Param>(testing::param_of(*stores.back(), "p")));
    return *kept.back();
  }

  void expect(const Result<Tensor>& y, const Dims& dims, const std::vector<double>& expected) {
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(y->dims(), dims) << y->dims().to_string();
    EXPECT_EQ(y->dtype(), GetParam());
    const auto values = values_of(*y);
    ASSERT_EQ(values.size(), expected.size());
    const double tolerance = GetParam() == DType::kF64 ? 2e-9 : 1e-6;  // ten digits were written down
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
    }
  }

  std::vector<std::unique_ptr<ParamStore>> stores;
  std::vector<std::unique_ptr<Param>> kept;
  Lab lab;
  Context& context = lab.context;
};

INSTANTIATE_TEST_SUITE_P(Types, Reference, ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

const std::vector<double> kXs = {-3.5, -1, -0.25, 0, 0.5, 2, 7};

TEST_P(Reference, Activations) {
  const Tensor x = tensor(kXs, {7});
  expect(ops::relu(context, x), {7}, {0, 0, 0, 0, 0.5, 2, 7});
  expect(ops::relu6(context, x), {7}, {0, 0, 0, 0, 0.5, 2, 6});
  expect(ops::gelu(context, x), {7}, {-0.0008142017766, -0.1586552539, -0.1003234186, 0, 0.3457312306, 1.954499736, 7});
  expect(ops::gelu(context, x, Activation::kGeluTanh), {7},
         {-0.0006161976554, -0.1588080094, -0.1003246493, 0, 0.3457140098, 1.954597694, 7});
  expect(ops::silu(context, x), {7},
         {-0.1025928076, -0.2689414214, -0.1094558748, 0, 0.3112296656, 1.761594156, 6.993622642});
  expect(ops::swiglu(context, tensor({-1, 0.5, 2}, {3}), tensor({3, -2, 0.25}, {3})), {3},
         {-0.8068242641, -0.6224593312, 0.440398539});
  expect(ops::softmax_last_dim(context, tensor({1, 2, 3, -1, 0, 1000}, {2, 3})), {2, 3},
         {0.09003057317, 0.2447284711, 0.6652409558, 0, 0, 1});
}

TEST_P(Reference, Elementwise) {
  const Tensor a = tensor({1, -2, 3}, {3});
  const Tensor b = tensor({4, -8, 0.5}, {3});
  expect(ops::binary(context, BinaryOp::kAdd, a, b), {3}, {5, -10, 3.5});
  expect(ops::binary(context, BinaryOp::kSub, a, b), {3}, {-3, 6, 2.5});
  expect(ops::binary(context, BinaryOp::kMul, a, b), {3}, {4, 16, 1.5});
  expect(ops::binary(context, BinaryOp::kDiv, a, b), {3}, {0.25, 0.25, 6});
  expect(ops::binary(context, BinaryOp::kMax, a, b), {3}, {4, -2, 3});
  expect(ops::binary(context, BinaryOp::kMin, a, b), {3}, {1, -8, 0.5});
  expect(ops::unary(context, UnaryOp::kNeg, a), {3}, {-1, 2, -3});
  expect(ops::unary(context, UnaryOp::kAbs, a), {3}, {1, 2, 3});
  expect(ops::unary(context, UnaryOp::kRelu6, b), {3}, {4, 0, 0.5});
  expect(ops::clamp(context, b, -1, 2), {3}, {2, -1, 0.5});
  expect(ops::dropout(context, a, 0.5F, false), {3}, {1, -2, 3});
  expect(ops::add_bias(context, tensor({1, 2, 3, 4}, {2, 2}), param({2}, {10, 20})), {2, 2}, {11, 22, 13, 24});
  expect(ops::add_bias(context, tensor({1, 2, 3, 4}, {2, 2}), tensor({10, 20}, {2})), {2, 2}, {11, 22, 13, 24});
}

TEST_P(Reference, ElementwiseOfTraining) {
  const Tensor x = tensor({-3, -0.5, 0, 2}, {4});
  expect(ops::unary(context, UnaryOp::kSigmoid, x), {4}, {0.04742587318, 0.3775406688, 0.5, 0.880797078});
  expect(ops::unary(context, UnaryOp::kTanh, x), {4}, {-0.9950547537, -0.4621171573, 0, 0.9640275801});
  expect(ops::unary(context, UnaryOp::kLeakyRelu, x, 0.25), {4}, {-0.75, -0.125, 0, 2});
  expect(ops::unary(context, UnaryOp::kElu, x, 0.25), {4}, {-0.2375532329, -0.09836733507, 0, 2});
  expect(ops::unary(context, UnaryOp::kSoftplus, x), {4}, {0.04858735157, 0.4740769842, 0.6931471806, 2.126928011});
  expect(ops::unary(context, UnaryOp::kHardSigmoid, x), {4}, {0, 0.4, 0.5, 0.9});
  expect(ops::unary(context, UnaryOp::kHardSwish, x), {4}, {0, -0.2, 0, 1.8});
  expect(ops::unary(context, UnaryOp::kExp, x), {4}, {0.04978706837, 0.6065306597, 1, 7.389056099});
  expect(ops::unary(context, UnaryOp::kLog, tensor({0.5, 1, 8}, {3})), {3}, {-0.6931471806, 0, 2.079441542});
  expect(ops::unary(context, UnaryOp::kSqrt, tensor({0, 2.25, 16}, {3})), {3}, {0, 1.5, 4});
  expect(ops::unary(context, UnaryOp::kSquare, x), {4}, {9, 0.25, 0, 4});
  expect(ops::unary(context, UnaryOp::kScale, x, -2), {4}, {6, 1, 0, -4});
  expect(ops::unary(context, UnaryOp::kShift, x, 1.5), {4}, {-1.5, 1, 1.5, 3.5});
  expect(ops::prelu(context, x.reshaped({2, 2}), param({2}, {0.5, -1})), {2, 2}, {-1.5, 0.5, 0, 2});
}

TEST_P(Reference, Sums) {
  const Tensor x = tensor({1, 2, 3, 4, 5, -6}, {2, 3});
  expect(ops::sum_all(context, x), {1}, {9});
  expect(ops::mean_all(context, x), {1}, {1.5});
  expect(ops::sum_last_dim(context, x), {2}, {6, 3});
  expect(ops::sum_last_dim(context, tensor({1, 2, 4}, {3})), {1}, {7});
  expect(ops::scale_rows(context, x, tensor({2, -1}, {2})), {2, 3}, {2, 4, 6, -4, -5, 6});
}

// A key and a place decide: what stays is divided by the share that stays.
TEST_P(Reference, Dropout) {
  RandomStream random{.seed = 3};
  context.random = &random;
  constexpr size_t kCount = 10000;
  const Tensor ones = tensor(std::vector<double>(kCount, 1), {kCount});
  const auto first = ops::dropout(context, ones, 0.25F, true);
  ASSERT_TRUE(first) << first.error().message;
  size_t survivors = 0;
  for (const double value : values_of(*first)) {
    EXPECT_TRUE(value == 0 || std::abs(value - 4.0 / 3) < 1e-6) << value;
    survivors += value != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(survivors), 7500, 150);
  EXPECT_EQ(random.draws, 1U);
  EXPECT_NE(values_of(*ops::dropout(context, ones, 0.25F, true)), values_of(*first));
  random.draws = 0;
  EXPECT_EQ(values_of(*ops::dropout(context, ones, 0.25F, true)), values_of(*first));
  context.random = nullptr;
}

TEST_P(Reference, Losses) {
  const Tensor logits = tensor({1, 2, 3, 0, -1, 2.5, 4, 4, 4}, {3, 3});
  const std::vector<uint32_t> labels = {0, 2, ops::kIgnoredLabel};
  expect(ops::cross_entropy(context, logits, labels), {1}, {1.257010034});
  expect(ops::cross_entropy(context, logits, tensor({0.2, 0.3, 0.5, 0, 1, 0, 0.1, 0.1, 0.1}, {3, 3})), {1},
         {1.681201252});
  expect(ops::hinge_loss(context, logits, labels, 1), {1}, {2.5});
  const Tensor z = tensor({-1, 0.25, 0.75}, {3}), t = tensor({0, 1, 0.5}, {3});
  expect(ops::element_loss(context, ops::ElementLoss::kSquared, z, t), {3}, {1, 0.5625, 0.0625});
  expect(ops::element_loss(context, ops::ElementLoss::kAbsolute, z, t), {3}, {1, 0.75, 0.25});
  expect(ops::element_loss(context, ops::ElementLoss::kSmoothL1, z, t, 0.5), {3}, {0.75, 0.5, 0.0625});
  expect(ops::element_loss(context, ops::ElementLoss::kBinaryCrossEntropy, z, t), {3},
         {1.0000005e-06, 1.386294361, 0.8369882168});
  expect(ops::element_loss(context, ops::ElementLoss::kBinaryCrossEntropyWithLogits, z, t), {3},
         {0.3132616875, 0.5759394199, 0.7618710061});
  expect(ops::square_distances(context, tensor({0, 0, 3, 4}, {2, 2}), tensor({0, 1, 3, 4, 1, 1}, {3, 2})), {2, 3},
         {1, 25, 2, 18, 0, 13});
  const Tensor cosines = tensor({0.5, -0.25, -0.96875, 0.75, 0.125, 0.25}, {3, 2});
  const std::vector<uint32_t> own = {0, 0, ops::kIgnoredLabel};
  expect(ops::margin_logits(context, ops::AngularMargin::kCosFace, cosines, own, 0.25, 4), {3, 2},
         {1, -1, -4.875, 3, 0.5, 1});
  expect(ops::margin_logits(context, ops::AngularMargin::kArcFace, cosines, own, 0.5, 4), {3, 2},
         {0.0943863412, -1, -4.8338510772, 3, 0.5, 1});
  expect(ops::margin_logits(context, ops::AngularMargin::kEasyArcFace, cosines, own, 0.5, 4), {3, 2},
         {0.0943863412, -1, -3.875, 3, 0.5, 1});
}

TEST_P(Reference, Products) {
  const Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<double> b = {1, 0, -1, 2, 3, 1};  // [3, 2]
  const std::vector<double> product = {8, 7, 17, 16};
  expect(ops::matmul(context, a, tensor(b, {3, 2})), {2, 2}, product);
  expect(ops::matmul(context, a, param({3, 2}, b)), {2, 2}, product);
  expect(ops::matmul(context, a, param({3, 2}, b, DType::kBF16)), {2, 2}, product);
  expect(ops::linear(context, a, param({2, 3}, {1, -1, 3, 0, 2, 1}), {.layout = WeightLayout::kOutIn}), {2, 2},
         product);
  // Two products at once: the second has its matrices the other way round.
  expect(ops::matmul(context, tensor({1, 2, 3, 4, 0, 1, 1, 0}, {2, 2, 2}), tensor({5, 6, 7, 8, 1, 2, 3, 4}, {2, 2, 2})),
         {2, 2, 2}, {19, 22, 43, 50, 3, 4, 1, 2});
  const Param bias = param({2}, {-10, 1});
  const Tensor residual = tensor({100, 200, 300, 400}, {2, 2});
  expect(ops::linear(context, a, param({3, 2}, b),
                     {.bias = &bias, .activation = Activation::kRelu, .residual = &residual}),
         {2, 2}, {100, 208, 307, 417});
  expect(ops::linear(context, tensor({1, 2, 3}, {3}), param({3, 2}, b)), {2}, {8, 7});
  // Side by side, and with a gate.
  const Param first = param({3, 2}, b), second = param({3, 1}, {1, 1, -1});
  const ops::LinearPart beside[] = {{first, {.bias = &bias}, {}}, {second, {}, {}}};
  expect(ops::linear_parts(context, a, beside), {2, 3}, {-2, 8, 0, 7, 17, 3});
  const ops::LinearPart gate[] = {{first, {.bias = &bias}, {}}, {first, {}, {}}};
  expect(ops::linear_parts(context, a, gate, {.is_gated = true, .gate = Activation::kRelu}), {2, 2}, {0, 56, 119, 272});
  const Param gamma = param({3}, {1, 2, 3}), beta = param({3}, {0, 1, 0});
  const ops::LinearPart one[] = {{second, {}, {}}};
  const Tensor row = tensor({2, -2, 2}, {1, 3}), other = tensor({3, 0, -3}, {1, 3});
  expect(ops::linear_parts(context, row, one, {.norm = {.gamma = &gamma, .shift = 1}}), {1, 1}, {-5});
  expect(ops::linear_parts(context, other, one, {.norm = {.gamma = &gamma, .beta = &beta}}), {1, 1}, {5.898979486});
  expect(ops::linear(context, tensor({}, {2, 0}), param({0, 2}, {}), {.bias = &bias}), {2, 2}, {-10, 1, -10, 1});
  expect(ops::linear(context, tensor({}, {2, 0}), param({2, 0}, {}), {.bias = &bias, .layout = WeightLayout::kOutIn}),
         {2, 2}, {-10, 1, -10, 1});
}

TEST_P(Reference, Norms) {
  const Tensor x = tensor({1, 2, 3, 4, -2, 0, 0.5, 8}, {2, 4});
  const Param gamma = param({4}, {1, 2, 0.5, -1});
  const Param beta = param({4}, {0, 1, -1, 0.5});
  // eps 2^-17 is exact in both types; the numbers below were computed with it.
  const float eps = 0x1p-17F;
  expect(ops::layer_norm(context, x, gamma, beta, eps), {2, 4},
         {-1.341636692, 0.1055755386, -0.7763938846, -0.8416366922, -0.9545463746, 0.1441998021, -1.148119265,
          -1.178685004});
  expect(ops::rms_norm(context, x, gamma, eps), {2, 4},
         {0.3651481859, 1.460592744, 0.5477222789, -1.460592744, -0.4841819179, 0.0, 0.06052273974, -1.936727672});
}

TEST_P(Reference, NormsOverBatchesAndGroups) {
  const float eps = 0x1p-7F;
  const Tensor x = tensor({1, 2, 3, -1, 5, 5}, {3, 2});
  const Param gamma = param({2}, {2, -1}), beta = param({2}, {0.5, 1});
  const auto statistics = ops::batch_statistics(context, x);
  expect(statistics, {2, 2}, {3, 2, 2.666666667, 6});
  expect(ops::batch_norm_training(context, x, *statistics, gamma, beta, eps), {3, 2},
         {-1.945909488, 1, 0.5, 2.223948289, 2.945909488, -0.2239482893});
  expect(ops::batch_norm(context, x, param({2}, {0.5, -1}), param({2}, {4, 0.25}), gamma, beta, eps), {3, 2},
         {0.9995124328, -4.908391567, 2.997562164, 1, 4.995611896, -10.81678313});
  expect(
      ops::group_norm(context, tensor({1, 2, 3, 4, -2, 0, 0.5, 8}, {1, 1, 2, 4}), 2, param({4}, {1, 2, 0.5, -1}),
                      param({4}, {0, 1, -1, 0.5}), eps),
      {1, 1, 2, 4},
      {0.5061894487, 3.362217427, -1.161874052, 0.453750271, -1.518568346, 0.6625403675, -1.624371342, -1.026241057});
}

TEST_P(Reference, ImagesOfTraining) {
  const Tensor row = tensor({0, 4}, {1, 1, 2, 1});
  const std::vector<double> nearest = {0, 0, 4, 4}, bilinear = {0, 1, 3, 4}, aligned = {0, 4.0 / 3, 8.0 / 3, 4};
  const auto twice = [](std::vector<double> values) {
    values.insert(values.end(), values.begin(), values.begin() + 4);
    return values;
  };
  expect(ops::upsample2d(context, row, 2, ops::Upsampling::kNearest), {1, 2, 4, 1}, twice(nearest));
  expect(ops::upsample2d(context, row, 2, ops::Upsampling::kBilinear), {1, 2, 4, 1}, twice(bilinear));
  expect(ops::upsample2d(context, row, 2, ops::Upsampling::kBilinearAlignedCorners), {1, 2, 4, 1}, twice(aligned));
  const Param bias = param({1}, {0.5});
  expect(ops::conv_transpose2d(context, tensor({1, 2}, {1, 1, 2, 1}), param({1, 1, 2, 2}, {1, 2, 3, 4}), &bias, 1, 0),
         {1, 2, 3, 1}, {1.5, 4.5, 4.5, 3.5, 10.5, 8.5});
  expect(ops::conv_transpose2d(context, tensor({1, 2}, {1, 1, 2, 1}), param({1, 1, 2, 2}, {1, 2, 3, 4}), nullptr, 2, 0),
         {1, 2, 4, 1}, {1, 2, 2, 4, 3, 4, 6, 8});
  const Tensor image = tensor({1, 2, 3, 4}, {1, 2, 2, 1});
  expect(ops::avg_pool2d_nhwc(context, image, {.window_h = 2, .window_w = 2}), {1, 1, 1, 1}, {2.5});
  expect(ops::avg_pool2d_nhwc(context, image, {2, 2, 2, 2, 1, 1, 1, 1}), {1, 2, 2, 1}, {0.25, 0.5, 0.75, 1});
}

TEST_P(Reference, Embeddings) {
  const std::vector<double> table = {1, 2, 3, 4, 5, 6};
  const uint32_t ids[] = {2, 0, 2};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    expect(ops::embedding_lookup(context, param({3, 2}, table, dtype), ids, GetParam()), {3, 2}, {5, 6, 1, 2, 5, 6});
  }
}

const std::vector<double> kQkv = {1, 0, 0, 1, 1, 2, 1, -1, 0.5, -0.5, 1, 1, -1, 0.5, 2, 0, 2, 1, -1, 0.5, 0, 1, -3, 4};
const std::vector<double> kAttended = {1,
                                       -1,
                                       1,
                                       -1,
                                       1.455920557,
                                       -0.5440794433,
                                       1.077638504,
                                       -0.9223614959,
                                       0.5974620848,
                                       -0.4564500481,
                                       0.3237148532,
                                       0.969465045};

TEST_P(Reference, Attention) {
  const ops::AttentionConfig config{.q_heads = 2, .kv_heads = 1, .head_dim = 2};
  expect(ops::attention(context, config, tensor(kQkv, {3, 8})), {3, 4}, kAttended);

  // The same in two steps with a past: two positions, then one.
  const KvPast past =
      testing::whole_past({.layers = 1, .kv_heads = 1, .head_dim = 2, .most_positions = 9, .dtype = GetParam()});
  const KvRows begin{&past, 0, 2}, end{&past, 2, 1};
  const Tensor first = tensor({kQkv.begin(), kQkv.begin() + 16}, {2, 8});
  expect(ops::attention_decode_cache(context, config, first, std::span(&begin, 1), 0), {2, 4},
         {kAttended.begin(), kAttended.begin() + 8});
  const Tensor second = tensor({kQkv.begin() + 16, kQkv.end()}, {1, 8});
  expect(ops::attention_decode_cache(context, config, second, std::span(&end, 1), 0), {1, 4},
         {kAttended.begin() + 8, kAttended.end()});

  // Turned by a quarter, whatever the position, keys and queries meet as they were.
  const ops::RopeTables quarter{tensor({0, 0}, {2, 1}), tensor({1, 1}, {2, 1})};
  expect(ops::attention_decode_turned(context, config, first, {.rope = &quarter}, std::span(&begin, 1), 0), {2, 4},
         {kAttended.begin(), kAttended.begin() + 8});
}

TEST_P(Reference, AttentionOfSeveralSequences) {
  ops::AttentionConfig config{.q_heads = 2, .kv_heads = 1, .head_dim = 2, .causal = false};
  expect(ops::attention(context, config, tensor(kQkv, {3, 8})), {3, 4},
         {0.004047606078, 0.5600062937, 0.1159401604, 0.5286124915, -0.1141895737, 1.057094787, 0.3307467968,
          -0.02074381255, 0.5974620848, -0.4564500481, 0.3237148532, 0.969465045});
  // Each position by itself sees itself alone.
  config = {.q_heads = 2, .kv_heads = 1, .head_dim = 2, .sequences = 3};
  expect(ops::attention(context, config, tensor(kQkv, {3, 8})), {3, 4}, {1, -1, 1, -1, 2, 0, 2, 0, -3, 4, -3, 4});
}

TEST_P(Reference, AttentionWithAWindowAndACap) {
  const Tensor qkv = tensor({1, 2, 3, 0.5, -1, 4, 2, 1, -2, 1, 0.5, 1}, {4, 3});
  ops::AttentionConfig config{.q_heads = 1, .kv_heads = 1, .head_dim = 1, .window = 2};
  expect(ops::attention(context, config, qkv), {4, 1}, {3, 3.182425524, -1.89208274, -0.8673779936});
  config = {.q_heads = 1, .kv_heads = 1, .head_dim = 1, .scale = 0.5F, .soft_cap = 1.5F};
  expect(ops::attention(context, config, qkv), {4, 1}, {3, 3.325199176, 1.22100326, 1.302056387});
  config = {.q_heads = 1, .kv_heads = 1, .head_dim = 1, .window = 3, .scale = 0.25F, .soft_cap = 0.5F};
  expect(ops::attention(context, config, qkv), {4, 1}, {3, 3.412529598, 1.238512569, 0.560689538});
}

TEST_P(Reference, PairsToHalves) {
  const ops::AttentionConfig config{.q_heads = 2, .kv_heads = 1, .head_dim = 4};
  expect(ops::pairs_to_halves(context, config, tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {1, 16})),
         {1, 16}, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 13, 14, 15});
}

TEST_P(Reference, Experts) {
  const Tensor scores = tensor({1, 2, 0.5, 2, -1, 0, 3, 1}, {2, 4});
  // Of equal ones the first.
  expect(ops::expert_gates(context, scores, 1, false), {2, 4}, {0, 0.3859499399, 0, 0, 0, 0, 0.8309526605, 0});
  expect(ops::expert_gates(context, scores, 3, false), {2, 4},
         {0.1419830482, 0.3859499399, 0, 0.3859499399, 0, 0.04137069692, 0.8309526605, 0.1124572137});
  expect(ops::expert_gates(context, scores, 2, true), {2, 4}, {0, 0.5, 0, 0.5, 0, 0, 0.8807970780, 0.1192029220});
  // Two experts, each one channel wide: relu(gate) * up * down.
  const Param& gate_up = param({2, 2, 1}, {1, 2, 3, -1});
  const Param& down = param({2, 1, 1}, {0.5, 4});
  const ops::Expert experts[] = {{{gate_up, {0, 1}}, {gate_up, {1, 1}}, {down, {0, 1}}},
                                 {{gate_up, {2, 1}}, {gate_up, {3, 1}}, {down, {1, 1}}}};
  const Tensor gates = tensor({0.25, 0, 0, 0.5, 1, 2}, {3, 2});
  expect(ops::expert_mlp(context, tensor({2, 3, 1}, {3, 1}), gates, experts, Activation::kRelu), {3, 1},
         {0.25 * 4, 0.5 * -108, 1 - 24});
}

TEST_P(Reference, RopeOfPairs) {
  const auto tables =
      ops::rope_tables(context, {.rotary_dim = 4, .theta = 100, .layout = ops::RopeLayout::kPairs}, {3, 1}, GetParam());
  ASSERT_TRUE(tables) << tables.error().message;
  // What the halves make of 1, 2, 3, 4 in the places of pairs.
  expect(ops::apply_rope(context, tensor({1, 3, 2, 4, 5}, {1, 1, 5}), *tables), {1, 1, 5},
         {-1.413352521, -2.828857482, 0.7285921516, 4.41238637, 5});
}

TEST_P(Reference, Rope) {
  const auto tables = ops::rope_tables(context, {.rotary_dim = 4, .theta = 100}, {3, 2}, GetParam());
  ASSERT_TRUE(tables) << tables.error().message;
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};
  const std::vector<double> at_3 = {-1.413352521, 0.7285921516, -2.828857482, 4.41238637, 5, 6};
  const std::vector<double> at_4 = {1.616763865, 0.2844486188, -2.717733358, 4.463080661, 5, 6};
  const auto joined = [](std::initializer_list<std::vector<double>> parts) {
    std::vector<double> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  expect(ops::apply_rope(context, tensor(joined({x, x}), {2, 1, 6}), *tables), {2, 1, 6}, joined({at_3, at_4}));
  // Two query heads and one key head are turned, the value is not.
  expect(ops::apply_rope_qkv_packed(context, {.q_heads = 2, .kv_heads = 1, .head_dim = 6},
                                    tensor(joined({x, x, x, x, x, x, x, x}), {2, 24}), *tables),
         {2, 24}, joined({at_3, at_3, at_3, x, at_4, at_4, at_4, x}));
}

TEST_P(Reference, RopeScaling) {
  using ops::RopeScaling;
  const auto tables = [&](const RopeScaling& scaling) {
    return *ops::rope_tables(context, {.rotary_dim = 8, .theta = 10000, .scaling = scaling}, {5, 1}, GetParam());
  };
  expect(tables({.kind = RopeScaling::Kind::kLinear, .factor = 2}).cosines, {1, 4},
         {-0.8011436155, 0.9689124217, 0.9996875163, 0.999996875});
  const auto yarn = tables({.kind = RopeScaling::Kind::kYarn, .factor = 4, .original_context = 32});
  expect(yarn.cosines, {1, 4}, {0.3229861143, 1.12974547, 1.138540482, 1.138628547});
  expect(yarn.sines, {1, 4}, {-1.091859406, 0.1419583214, 0.01423249731, 0.001423286424});
  const auto scaled = tables({.kind = RopeScaling::Kind::kYarn,
                              .factor = 4,
                              .mscale = 0.7,
                              .mscale_all_dim = 1.3,
                              .original_context = 2048,
                              .truncate = false});
  expect(scaled.cosines, {1, 4}, {0.2636706653, 0.8157336078, 0.9292263749, 0.9295227662});
  expect(scaled.sines, {1, 4}, {-0.8913426407, 0.445637301, 0.0235003649, 0.001161904063});
}

TEST_P(Reference, RopeScalingOfLaterFamilies) {
  using ops::RopeScaling;
  const auto tables = [&](const RopeScaling& scaling, uint64_t position, uint64_t length) {
    const ops::RopeConfig config{.rotary_dim = 4, .theta = 100, .scaling = scaling};
    return *ops::rope_tables(context, config, {position, 1, length}, GetParam());
  };
  const auto llama3 = tables({.kind = RopeScaling::Kind::kLlama3, .factor = 8, .original_context = 20}, 5, 0);
  expect(llama3.cosines, {1, 2}, {-0.7856234423, 0.9980475107});
  expect(llama3.sines, {1, 2}, {-0.6187049434, 0.06245931784});
  const RopeScaling dynamic{.kind = RopeScaling::Kind::kDynamic, .factor = 2, .original_context = 8};
  expect(tables(dynamic, 11, 0).cosines, {1, 2}, {0.004425697988, 0.8525245221});
  expect(tables(dynamic, 11, 12).sines, {1, 2}, {-0.9999902066, 0.5226872289});
  const RopeScaling longrope{.kind = RopeScaling::Kind::kLongRope,
                             .factor = 4,
                             .original_context = 8,
                             .short_factors = {1, 1.5},
                             .long_factors = {2, 3}};
  expect(tables(longrope, 5, 0).cosines, {1, 2}, {0.3662063067, 1.219934172});
  expect(tables(longrope, 9, 0).cosines, {1, 2}, {-0.2721362069, 1.233334104});
  expect(tables(longrope, 9, 0).sines, {1, 2}, {-1.261985955, 0.3815149463});
}

TEST_P(Reference, Convolution) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  const Param cross = param({1, 1, 3, 3}, {0, 1, 0, 1, -4, 1, 0, 1, 0});
  expect(ops::conv2d(context, x, cross, nullptr, {}), {1, 1, 1, 1}, {0});
  expect(ops::conv2d(context, x, cross, nullptr, {.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}),
         {1, 3, 3, 1}, {2, 1, -4, -3, 0, -7, -16, -11, -22});
  expect(ops::conv2d(context, x, cross, nullptr,
                     {.stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}),
         {1, 2, 2, 1}, {2, -4, -16, -22});
  // Padding on one side only, and a gap between the taps.
  const Param pair = param({1, 1, 1, 2}, {10, 1});
  expect(ops::conv2d(context, x, pair, nullptr, {.pad_right = 1}), {1, 3, 3, 1}, {12, 23, 30, 45, 56, 60, 78, 89, 90});
  expect(ops::conv2d(context, x, pair, nullptr, {.dilation_w = 2}), {1, 3, 1, 1}, {13, 46, 79});

  // Two channels in, three out, 1 x 1, with everything that is fused.
  const Tensor pixels = tensor({1, 2, 3, 4}, {1, 1, 2, 2});
  const Param mix = param({3, 2, 1, 1}, {1, 0, 0, 1, 1, -1});
  const Param bias = param({3}, {0.5, -10, 0});
  const Tensor residual = tensor({1, 1, 3, 1, 20, 1}, {1, 1, 2, 3});
  expect(ops::conv2d(context, pixels, mix, &bias, {.activation = Activation::kRelu, .residual = &residual}),
         {1, 1, 2, 3}, {2.5, 0, 2, 4.5, 14, 0});
  // Each channel by itself, two outputs for each.
  const Param groups = param({4, 1, 1, 1}, {1, 10, 100, 1000});
  expect(ops::conv2d(context, pixels, groups, nullptr, {.groups = 2}), {1, 1, 2, 4},
         {1, 10, 200, 2000, 3, 30, 400, 4000});
}

TEST_P(Reference, Pooling) {
  const std::vector<double> image = {1, -1, 5, -2, 2, -3, 7, -4, 3, -9, 4, -8};  // [2, 3] of 2 channels
  const Tensor x = tensor(image, {1, 2, 3, 2});
  expect(ops::max_pool2d_nhwc(context, x, {.window_h = 2, .window_w = 2}), {1, 1, 2, 2}, {7, -1, 5, -2});
  expect(ops::max_pool2d_nhwc(context, x, {.window_h = 2, .window_w = 2, .stride_h = 2, .stride_w = 2, .pad_left = 1}),
         {1, 1, 2, 2}, {7, -1, 5, -2});
  expect(ops::max_pool2d(context, tensor({1, 5, 2, 7, 3, 4, -1, -2, -3, -4, -9, -8}, {1, 2, 2, 3}),
                         {.window_h = 2, .window_w = 2}),
         {1, 2, 1, 2}, {7, 5, -1, -2});
  expect(ops::global_mean_pool_nhwc(context, x), {1, 2}, {22.0 / 6, -27.0 / 6});
}

TEST_P(Reference, Shapes) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  expect(ops::reshape(context, x, {3, 2}), {3, 2}, {1, 2, 3, 4, 5, 6});
  const size_t reversed[] = {2, 1, 0};
  expect(ops::transpose(context, x, reversed), {3, 2, 1}, {1, 4, 2, 5, 3, 6});
  expect(ops::slice_along_axis(context, x, 2, 1, 2), {1, 2, 2}, {2, 3, 5, 6});
  expect(ops::slice_along_axis(context, x, 1, 1, 1), {1, 1, 3}, {4, 5, 6});
  const Tensor parts[] = {x, tensor({7, 8}, {1, 2, 1})};
  expect(ops::concat_along_axis(context, parts, 2), {1, 2, 4}, {1, 2, 3, 7, 4, 5, 6, 8});
}

}  // namespace
}  // namespace ballast
