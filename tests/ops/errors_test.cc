// What functionals say about arguments that do not fit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/metric.h"
#include "ballast/ops/rotary_order.h"
#include "tests/support/ops_testing.h"
#include "tests/support/whole_past.h"

namespace ballast {
namespace {

using testing::Lab;
using testing::make_param;

struct OpsErrors : ::testing::Test {
  OpsErrors() {
    std::vector<MemoryParam> params;
    params.push_back(make_param("w", DType::kF32, {4, 8}, std::vector<double>(32)));
    params.push_back(make_param("b", DType::kF32, {8}, std::vector<double>(8)));
    params.push_back(make_param("g", DType::kF16, {5}, std::vector<double>(5)));
    params.push_back(make_param("ids", DType::kI32, {4, 8}, std::vector<double>(32)));
    params.push_back(make_param("kernel", DType::kF32, {6, 2, 3, 3}, std::vector<double>(108)));
    MemoryParam grid;
    grid.info.name = "grid";
    grid.info.dtype = DType::kIQ2XXS;
    grid.info.shape = {1, 256};
    grid.payload.resize(66);
    params.push_back(std::move(grid));
    store = testing::make_store(std::move(params));
  }
  Param param(const std::string& name) { return testing::param_of(*store, name); }
  Tensor zeros(const Dims& dims, DType dtype = DType::kF32) { return *lab.workspace.zeros(dims, dtype); }
  Context& context() { return lab.context; }

  std::unique_ptr<ParamStore> store;
  Lab lab;
};

#define EXPECT_REFUSED(expression, text)                         \
  do {                                                           \
    const auto result = (expression);                            \
    ASSERT_FALSE(result);                                        \
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument); \
    EXPECT_EQ(result.error().message, text);                     \
  } while (false)

TEST_F(OpsErrors, NameTheFunctionalAndTheShapes) {
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 5}), param("w")),
                 "linear: x [3, 5] does not fit weight \"w\" [4, 8]: the last dimension of x must be 4");
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 5}), param("w"), {.layout = WeightLayout::kOutIn}),
                 "linear: x [3, 5] does not fit weight \"w\" [4, 8]: the last dimension of x must be 8");
  EXPECT_REFUSED(ops::matmul(context(), zeros({3, 5}), zeros({4, 8})),
                 "matmul: a [3, 5] does not fit b [4, 8]: the last dimension of a must be 4");
  EXPECT_REFUSED(ops::matmul(context(), zeros({2, 3, 5}), zeros({3, 5, 8})),
                 "matmul: a [2, 3, 5] does not fit b [3, 5, 8]: both batches must have the same size");
  EXPECT_REFUSED(ops::matmul(context(), zeros({3}), zeros({3})),
                 "matmul: a [3] does not fit b [3]: both must be matrices or both batches of matrices");
  EXPECT_REFUSED(ops::matmul(context(), zeros({2, 3, 4}), param("w")),
                 "matmul: a [2, 3, 4]: it must have 2 dimensions");
  EXPECT_REFUSED(ops::add(context(), zeros({2, 3}), zeros({3})),
                 "binary: a [2, 3] does not fit b [3]: both must have the same shape");
  EXPECT_REFUSED(ops::add(context(), zeros({3}, DType::kF64), zeros({3})),
                 "binary: a f64 [3] does not fit b f32 [3]: both must have the same type");
  EXPECT_REFUSED(ops::add_bias(context(), zeros({2, 3}), param("b")),
                 "add_bias: x [2, 3] does not fit bias \"b\" [8]: the last dimension of x must be 8");
  EXPECT_REFUSED(ops::rms_norm(context(), zeros({2, 3}), param("g"), 1e-5F),
                 "rms_norm: x [2, 3] does not fit gamma \"g\" [5]: the last dimension of x must be 5");
  EXPECT_REFUSED(ops::swiglu(context(), zeros({2}), zeros({3})),
                 "swiglu: gate [2] does not fit up [3]: both must have the same shape");
}

TEST_F(OpsErrors, NameTheLayer) {
  const Context::Scope block(context(), "blocks", 0);
  EXPECT_REFUSED(ops::linear(context().at("attention.qkv"), zeros({3, 5}), param("w")),
                 "blocks.0.attention.qkv: linear: x [3, 5] does not fit weight \"w\" [4, 8]: the last dimension of x "
                 "must be 4");
  EXPECT_REFUSED(ops::relu(context(), Tensor()), "blocks.0: relu: x has no value");
}

TEST_F(OpsErrors, LeaveNoLabelBehind) {
  EXPECT_FALSE(ops::relu(context().at("act"), Tensor()));
  EXPECT_TRUE(context().take_label().empty());
}

TEST_F(OpsErrors, RefuseParametersOfTheWrongTypeOrRank) {
  EXPECT_REFUSED(
      ops::linear(context(), zeros({3, 4}), param("ids")),
      "linear: weight \"ids\" [4, 8]: it is i32, and parameters to compute with are f32, f16, bf16 or in blocks "
      "such as q4_0");
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 256}), param("grid"), {.layout = WeightLayout::kOutIn}),
                 "linear: weight \"grid\" [1, 256]: it is iq2_xxs, a type that is carried but not computed with");
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 4}), param("b")),
                 "linear: weight \"b\" [8]: it must have 2 dimensions");
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 4}), Param()), "linear: weight is no parameter");
  const Param w = param("w");
  const ops::LinearPart one[] = {{w, {}, {}}};
  EXPECT_REFUSED(ops::linear_parts(context(), zeros({3, 4}), {}), "linear_parts: x [3, 4]: there must be a weight");
  EXPECT_REFUSED(ops::linear_parts(context(), zeros({3, 4}), one, {.is_gated = true}),
                 "linear_parts: x [3, 4]: a gate takes two weights, not 1");
  EXPECT_REFUSED(ops::relu(context(), zeros({2}, DType::kI32)),
                 "relu: x [2]: it is i32, and activations are f32 or f64");
}

struct CountingTrace final : TraceSink {
  Status on_output(std::string_view, std::string_view, const Tensor&) override {
    ++outputs;
    return {};
  }
  int outputs = 0;
};

TEST_F(OpsErrors, OfSeveralProductsAreTheSameWhereTheirStepsAreShown) {
  const Context::Scope block(context(), "blocks", 0);
  const auto error_of = [&](const Dims& dims, std::span<const ops::LinearPart> parts, bool is_gated) {
    const auto y = ops::linear_parts(context(), zeros(dims), parts, {.is_gated = is_gated, .label = "hidden"});
    return y ? std::string("nothing is refused") : y.error().message;
  };
  const auto expect_refused = [&](const Dims& dims, std::span<const ops::LinearPart> parts, bool is_gated,
                                  const std::string& text) {
    EXPECT_EQ(error_of(dims, parts, is_gated), text);
    CountingTrace trace;
    context().trace = &trace;
    EXPECT_EQ(error_of(dims, parts, is_gated), text) << "where steps are shown";
    context().trace = nullptr;
    EXPECT_EQ(trace.outputs, 0) << text;
    EXPECT_TRUE(context().take_label().empty()) << text;
  };
  const Param w = param("w");
  const Tensor residual = zeros({3, 8});
  const ops::LinearPart one[] = {{w, {}, "up"}};
  const ops::LinearPart added[] = {{w, {}, "gate"}, {w, {.residual = &residual}, "up"}};
  const ops::LinearPart uneven[] = {{w, {.layout = WeightLayout::kOutIn}, "gate"},
                                    {w, {.layout = WeightLayout::kOutIn, .rows = {0, 2}}, "up"}};
  expect_refused({3, 4}, {}, false, "blocks.0.hidden: linear_parts: x [3, 4]: there must be a weight");
  expect_refused({3, 4}, one, true, "blocks.0.hidden: linear_parts: x [3, 4]: a gate takes two weights, not 1");
  expect_refused({3, 4}, added, false, "blocks.0.hidden: linear_parts: weight \"w\" [4, 8]: a part has no residual");
  expect_refused({3, 8}, uneven, true,
                 "blocks.0.hidden: linear_parts: gate \"w\" [4, 8] does not fit up \"w\" [4, 8]: both must have the "
                 "same outputs");
  expect_refused({3, 5}, one, false,
                 "blocks.0.hidden: linear_parts: x [3, 5] does not fit weight \"w\" [4, 8]: the last dimension of x "
                 "must be 4");
}

TEST_F(OpsErrors, RefuseBlocksInConvolutions) {
  std::vector<MemoryParam> params;
  MemoryParam blocks;
  blocks.info.name = "k";
  blocks.info.dtype = DType::kQ8_0;
  blocks.info.shape = {2, 1, 1, 32};
  blocks.payload.resize(68);
  params.push_back(std::move(blocks));
  const auto others = testing::make_store(std::move(params));
  EXPECT_REFUSED(ops::conv2d(context(), zeros({1, 4, 40, 1}), testing::param_of(*others, "k"), nullptr, {}),
                 "conv2d: weight \"k\" [2, 1, 1, 32]: it is q8_0, and convolutions compute with f32, f16 or bf16");
}

TEST_F(OpsErrors, CheckWhatIsFusedIntoAProduct) {
  const Param g = param("g");
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 4}), param("w"), {.bias = &g}),
                 "linear: bias \"g\" [5] does not fit weight \"w\" [4, 8]: it must have 8 values");
  const Tensor residual = zeros({3, 4});
  EXPECT_REFUSED(ops::linear(context(), zeros({3, 4}), param("w"), {.residual = &residual}),
                 "linear: residual f32 [3, 4] does not fit x [3, 4] weight \"w\" [4, 8]: the output is f32 [3, 8]");
}

TEST_F(OpsErrors, NameTheIndexThatIsOutsideATable) {
  const uint32_t ids[] = {0, 3, 4};
  EXPECT_REFUSED(ops::embedding_lookup(context(), param("w"), ids),
                 "embedding_lookup: index 4 at position 2 is outside weight \"w\" [4, 8]: its rows are 0 to 3");
}

TEST_F(OpsErrors, CheckAttention) {
  const ops::AttentionConfig config{.q_heads = 4, .kv_heads = 2, .head_dim = 3};
  EXPECT_REFUSED(
      ops::attention(context(), config, zeros({5, 20})),
      "attention: qkv [5, 20] does not fit 4 query heads and 2 key heads of 3: the last dimension of qkv must "
      "be 24");
  EXPECT_REFUSED(
      ops::attention(context(), {.q_heads = 3, .kv_heads = 2, .head_dim = 3}, zeros({5, 24})),
      "attention: 3 query heads and 2 key heads of 3: query heads must be a multiple of key heads, and none of "
      "them 0");
  const KvPast past = testing::whole_past({.layers = 2, .kv_heads = 2, .head_dim = 3, .most_positions = 8});
  const Tensor qkv = zeros({5, 24});
  const auto decode = [&](const KvPast& of, uint64_t layer, uint64_t position, uint64_t rows = 5) {
    const KvRows part{&of, position, rows};
    return ops::attention_decode_cache(context(), config, qkv, std::span(&part, 1), layer);
  };
  EXPECT_REFUSED(decode(past, 2, 0), "attention_decode_cache: layer 2 is outside a past of 2 layers");
  EXPECT_REFUSED(decode(past, 0, 4), "attention_decode_cache: 5 positions after 4 do not fit the model's context of 8");
  EXPECT_REFUSED(decode(past, 0, 0, 4),
                 "attention_decode_cache: qkv [5, 24] does not fit parts of 4 rows: both must have as many rows");
  EXPECT_FALSE(ops::attention_decode_cache(context(), config, qkv, {}, 0)) << "no part";
  KvPast gone = past;
  gone.pages[0][0] = nullptr;
  EXPECT_REFUSED(decode(gone, 0, 0),
                 "attention_decode_cache: positions 0 to 4 look at page 0 of layer 0, which is not there");
  const KvPast other = testing::whole_past({.layers = 2, .kv_heads = 1, .head_dim = 3, .most_positions = 8});
  EXPECT_REFUSED(decode(other, 0, 0),
                 "attention_decode_cache: 4 query heads and 2 key heads of 3 does not fit a past of 1 heads of 3: key "
                 "heads and their size must be the same");
  const KvPast twin = testing::whole_past(past.layout->shape());
  const std::array two = {KvRows{&past, 0, 2}, KvRows{&twin, 0, 3}};
  EXPECT_FALSE(ops::attention_decode_cache(context(), config, qkv, two, 0)) << "two layouts";
  const KvRows part{&past, 0, 5};
  EXPECT_FALSE(ops::attention_decode_cache(context(), config, zeros({5, 24}, DType::kF64), std::span(&part, 1), 0));
}

TEST_F(OpsErrors, CheckRope) {
  const auto tables = *ops::rope_tables(context(), {.rotary_dim = 4}, {0, 3});
  EXPECT_REFUSED(ops::apply_rope(context(), zeros({2, 1, 4}), tables),
                 "apply_rope: x [2, 1, 4] does not fit cosines [3, 2]: the first dimension of x must be 3");
  EXPECT_REFUSED(ops::apply_rope(context(), zeros({3, 1, 3}), tables),
                 "apply_rope: x [3, 1, 3] does not fit cosines [3, 2]: heads of 3 cannot have 4 channels turned");
  EXPECT_FALSE(ops::apply_rope(context(), zeros({3, 1, 4}, DType::kF64), tables));
  EXPECT_REFUSED(ops::pairs_to_halves(context(), {.q_heads = 1, .kv_heads = 1, .head_dim = 3}, zeros({2, 9})),
                 "pairs_to_halves: qkv [2, 9]: heads of 3 channels have no pairs");
  EXPECT_REFUSED(ops::rope_tables(context(), {.rotary_dim = 3}, {0, 1}), "rope_tables: 3 rotary channels are not even");
  EXPECT_FALSE(ops::rope_tables(context(), {.rotary_dim = 4, .theta = 0}, {0, 1}));
  EXPECT_FALSE(
      ops::rope_tables(context(), {.rotary_dim = 4, .scaling = {.kind = ops::RopeScaling::Kind::kYarn}}, {0, 1}));
}

TEST_F(OpsErrors, CheckConvolutions) {
  const Param kernel = param("kernel");
  EXPECT_REFUSED(
      ops::conv2d(context(), zeros({1, 5, 5, 3}), kernel, nullptr, {}),
      "conv2d: x [1, 5, 5, 3] does not fit weight \"kernel\" [6, 2, 3, 3]: the last dimension of x must be 2 "
      "for 1 group");
  EXPECT_REFUSED(ops::conv2d(context(), zeros({1, 5, 5, 8}), kernel, nullptr, {.groups = 4}),
                 "conv2d: weight \"kernel\" [6, 2, 3, 3]: 6 outputs do not divide into 4 groups");
  EXPECT_REFUSED(ops::conv2d(context(), zeros({1, 2, 5, 2}), kernel, nullptr, {}),
                 "conv2d: x [1, 2, 5, 2] does not fit weight \"kernel\" [6, 2, 3, 3]: the padded image is smaller than "
                 "the kernel (padding 0, 0, 0, 0)");
  EXPECT_REFUSED(
      ops::conv2d(context(), zeros({1, 5, 5, 2}), kernel, nullptr, {.stride_h = 0}),
      "conv2d: weight \"kernel\" [6, 2, 3, 3]: kernel, strides (0, 1) and dilations (1, 1) must be at least 1");
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(ops::conv2d(context(), zeros({1, 5, 5, 2}), kernel, nullptr, {.pad_top = kHuge, .pad_bottom = 2}));
  EXPECT_FALSE(ops::conv2d(context(), zeros({1, 5, 5, 2}), kernel, nullptr, {.dilation_h = kHuge}));
  const Tensor residual = zeros({1, 5, 5, 6});
  EXPECT_REFUSED(
      ops::conv2d(context(), zeros({1, 5, 5, 2}), kernel, nullptr, {.residual = &residual}),
      "conv2d: residual f32 [1, 5, 5, 6] does not fit x [1, 5, 5, 2] weight \"kernel\" [6, 2, 3, 3]: the output "
      "is f32 [1, 3, 3, 6]");
}

TEST_F(OpsErrors, CheckPooling) {
  EXPECT_REFUSED(
      ops::max_pool2d_nhwc(context(), zeros({1, 2, 2, 1}), {.window_h = 3, .window_w = 1}),
      "max_pool2d_nhwc: x [1, 2, 2, 1] does not fit window 3, 1 stride 1, 1 pad 0, 0, 0, 0: the padded image is "
      "smaller than the window");
  EXPECT_FALSE(ops::max_pool2d(context(), zeros({1, 1, 2, 2}), {.window_h = 2, .pad_top = 2}));
  EXPECT_FALSE(ops::max_pool2d(context(), zeros({1, 1, 2, 2}), {.stride_w = 0}));
  EXPECT_REFUSED(ops::global_mean_pool_nhwc(context(), zeros({1, 0, 2, 3})),
                 "global_mean_pool_nhwc: x [1, 0, 2, 3]: there are no positions to take the mean of");
}

TEST_F(OpsErrors, CheckShapes) {
  const Tensor x = zeros({2, 3});
  EXPECT_REFUSED(ops::reshape(context(), x, {4}), "reshape: x [2, 3] does not fit [4]: it has 6 elements and not 4");
  const size_t twice[] = {0, 0};
  EXPECT_REFUSED(ops::transpose(context(), x, twice),
                 "transpose: x [2, 3] does not fit the permutation [0, 0]: it must name each of 2 axes once");
  const size_t outside[] = {0, 2};
  EXPECT_FALSE(ops::transpose(context(), x, outside));
  EXPECT_REFUSED(ops::slice_along_axis(context(), x, 1, 2, 2),
                 "slice_along_axis: x [2, 3]: 2 elements from 2 on are outside axis 1 of 3");
  EXPECT_REFUSED(ops::slice_along_axis(context(), x, 2, 0, 1), "slice_along_axis: x [2, 3]: it has no axis 2");
  EXPECT_REFUSED(ops::concat_along_axis(context(), {}, 0), "concat_along_axis: there is nothing to join");
  const Tensor parts[] = {x, zeros({3, 3})};
  EXPECT_TRUE(ops::concat_along_axis(context(), parts, 0));
  EXPECT_REFUSED(
      ops::concat_along_axis(context(), parts, 1),
      "concat_along_axis: a part f32 [3, 3] does not fit the first, f32 [2, 3]: they may differ in axis 1 only");
}

TEST_F(OpsErrors, CheckTheRest) {
  EXPECT_REFUSED(ops::gelu(context(), zeros({1}), Activation::kRelu), "gelu: relu is no variant of GELU");
  EXPECT_REFUSED(ops::clamp(context(), zeros({1}), 2, 1), "clamp: the range from 2 to 1 is empty");
  EXPECT_REFUSED(ops::dropout(context(), zeros({1}), 1.5F, false),
                 "dropout: p is 1.5 and must be at least 0 and below 1");
  EXPECT_REFUSED(ops::dropout(context(), zeros({1}), 0.5F, true),
                 "dropout: in training it needs random numbers, and the context has none");
}

TEST_F(OpsErrors, CheckWhatTrainingAdds) {
  const std::vector<uint32_t> labels = {0, 7}, ignored = {ops::kIgnoredLabel, ops::kIgnoredLabel};
  EXPECT_REFUSED(ops::cross_entropy(context(), zeros({2, 3}), labels),
                 "cross_entropy: label 7 at row 1 is outside the 3 classes of logits [2, 3]");
  EXPECT_REFUSED(ops::cross_entropy(context(), zeros({3, 3}), labels),
                 "cross_entropy: logits [3, 3] does not fit 2 labels: there must be one for each row");
  EXPECT_REFUSED(ops::cross_entropy(context(), zeros({2, 3}), ignored),
                 "cross_entropy: logits [2, 3]: there is no row with a label to take the mean of");
  EXPECT_REFUSED(ops::element_loss(context(), ops::ElementLoss::kSmoothL1, zeros({2}), zeros({2}), 0),
                 "element_loss: beta is 0 and must be above 0");
  EXPECT_REFUSED(ops::square_distances(context(), zeros({2, 3}), zeros({4, 2})),
                 "square_distances: a [2, 3] does not fit b [4, 2]: their rows must be of one length and type");
  EXPECT_REFUSED(ops::margin_logits(context(), ops::AngularMargin::kCosFace, zeros({2, 3}), labels, 0.5, 64),
                 "margin_logits: label 7 at row 1 is outside the 3 classes of logits [2, 3]");
  EXPECT_REFUSED(ops::mean_all(context(), zeros({0})), "mean_all: x [0]: there are no elements to take the mean of");
  EXPECT_REFUSED(ops::scale_rows(context(), zeros({2, 3}), zeros({3})),
                 "scale_rows: factors f32 [3] does not fit x f32 [2, 3]: there must be one for each row, f32 [2]");
  EXPECT_REFUSED(ops::group_norm(context(), zeros({1, 2, 2, 8}), 3, param("b"), param("b"), 1e-5F),
                 "group_norm: x [1, 2, 2, 8]: 8 channels do not divide into 3 groups");
  EXPECT_REFUSED(
      ops::batch_norm_training(context(), zeros({4, 8}), zeros({2, 7}), param("b"), param("b"), 1e-5F),
      "batch_norm_training: statistics f32 [2, 7] does not fit x f32 [4, 8]: they must be batch_statistics of x");
  EXPECT_REFUSED(ops::conv_transpose2d(context(), zeros({1, 1, 1, 6}), param("kernel"), nullptr, 1, 2),
                 "conv_transpose2d: x [1, 1, 1, 6] does not fit weight \"kernel\" [6, 2, 3, 3]: nothing would be left "
                 "after a padding of 2");
  EXPECT_REFUSED(ops::upsample2d(context(), zeros({1, 2, 2, 1}), 0, ops::Upsampling::kNearest),
                 "upsample2d: x [1, 2, 2, 1]: it cannot be enlarged by 0");
  EXPECT_REFUSED(
      ops::attention(context(), {.q_heads = 1, .kv_heads = 1, .head_dim = 2, .sequences = 2}, zeros({3, 6})),
      "attention: qkv [3, 6] does not fit 1 query heads and 1 key heads of 2, 2 sequences: its rows must be a "
      "multiple of the sequences, which all have the same length");
}

TEST_F(OpsErrors, LeaveTheContextUsable) {
  EXPECT_FALSE(ops::relu(context(), Tensor()));
  EXPECT_TRUE(ops::relu(context(), zeros({3})));
}

}  // namespace
}  // namespace ballast
