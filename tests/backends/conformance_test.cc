// Every backend of the table, and the emulated one, against the reference in f64: every functional, every type of
// parameters, every shape of conformance_cases.cc. A new backend is tested without a line here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "ballast/device/host_values.h"
#include "ballast/tensor/small_float.h"
#include "tests/support/conformance_cases.h"
#include "tests/support/random_blocks.h"
#include "tests/support/whole_past.h"

namespace ballast {
namespace {

using testing::ConformanceCase;
using testing::Lab;
using testing::Trial;

const std::vector<ConformanceCase>& all_cases() {
  static const std::vector<ConformanceCase> cases = testing::conformance_cases();
  return cases;
}

// Matrices whose rows are whole blocks can be in blocks; what stands beside them is f32 then.
bool can_be(const Shape& shape, DType dtype) {
  if (!is_block(dtype)) return true;
  return shape.rank() == 2 && shape[1] != 0 && shape[1] % dtype_info(dtype).block_elements == 0;
}
bool can_have(const ConformanceCase& test, DType dtype) {
  return !is_block(dtype) || std::ranges::any_of(test.params, [&](const Shape& shape) { return can_be(shape, dtype); });
}

MemoryParam make_blocks(const std::string& name, DType dtype, const Shape& shape, uint64_t seed) {
  MemoryParam param;
  param.info.name = name;
  param.info.dtype = dtype;
  param.info.shape = shape;
  param.payload = testing::random_blocks(dtype, shape.element_count().value(), seed);
  param.info.byte_size = param.payload.size();
  return param;
}

std::vector<MemoryParam> make_params(const ConformanceCase& test, DType dtype) {
  std::vector<MemoryParam> params;
  for (size_t i = 0; i < test.params.size(); ++i) {
    const Shape& shape = test.params[i];
    const std::string name = "p" + std::to_string(i);
    if (is_block(dtype) && can_be(shape, dtype)) {
      params.push_back(make_blocks(name, dtype, shape, 100 + i));
      continue;
    }
    const auto values = testing::random_values(100 + i, shape.element_count().value());
    params.push_back(testing::make_param(name, is_block(dtype) ? DType::kF32 : dtype, shape, values));
  }
  return params;
}

Result<Tensor> run_case(const ConformanceCase& test, Lab& lab, DType dtype, ParamStore& store) {
  Trial trial{lab.context, dtype, {}, {}};
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    trial.x.push_back(lab.tensor(testing::random_values(i, test.inputs[i].count()), test.inputs[i], dtype));
  }
  for (size_t i = 0; i < test.params.size(); ++i) {
    trial.params.push_back(testing::param_of(store, "p" + std::to_string(i)));
  }
  return test.run(trial);
}

struct Subject {
  const Backend* backend;
  std::string functional;
  DType param_dtype;
};

// Types of parameters are told apart only where a functional has any.
std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Backend* backend : testing::tested_backends()) {
    for (const FunctionalInfo& info : all_functionals()) {
      const auto has_params = [&](const ConformanceCase& test) {
        return test.functional == info.name && !test.params.empty();
      };
      all.push_back({backend, std::string(info.name), DType::kF32});
      if (std::ranges::none_of(all_cases(), has_params)) continue;
      all.push_back({backend, std::string(info.name), DType::kF16});
      all.push_back({backend, std::string(info.name), DType::kBF16});
      constexpr std::array kReadBlocks = {"linear", "linear_parts", "matmul", "embedding_lookup"};
      if (std::ranges::find(kReadBlocks, info.name) == kReadBlocks.end()) continue;
      for (const DType dtype : testing::dequantizable_types()) all.push_back({backend, std::string(info.name), dtype});
    }
  }
  return all;
}

class Conformance : public ::testing::TestWithParam<Subject> {
 protected:
  // Calls body(case) for each case of the functional; there must be some.
  template <typename Body>
  void for_each_case(const Body& body) {
    size_t count = 0;
    for (const ConformanceCase& test : all_cases()) {
      if (test.functional != GetParam().functional || !can_have(test, param_dtype())) continue;
      SCOPED_TRACE(test.name);
      ++count;
      ASSERT_NO_FATAL_FAILURE(body(test));
    }
    EXPECT_GT(count, 0U) << "add cases for " << GetParam().functional << " to tests/support/conformance_cases.cc";
  }

  // How products are computed matters to weights in blocks and in bf16 alone.
  bool has_numerics() const { return is_block(param_dtype()) || param_dtype() == DType::kBF16; }
  std::vector<Numerics> all_numerics() const {
    if (!has_numerics()) return {Numerics::kFast};
    return {Numerics::kExact, Numerics::kFast};
  }

  const Backend& backend() const { return *GetParam().backend; }
  DType param_dtype() const { return GetParam().param_dtype; }
};

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, ::testing::ValuesIn(subjects()), [](const auto& test) {
  return std::string(test.param.backend->name) + "_" + test.param.functional + "_" +
         std::string(dtype_name(test.param.param_dtype));
});

TEST_P(Conformance, ComesWithinTheToleranceOfTheReferenceInF64) {
  for_each_case([&](const ConformanceCase& test) {
    const auto store = testing::make_store(make_params(test, param_dtype()));
    Lab exact_lab;
    Lab lab(backend());
    lab.context.numerics = Numerics::kExact;
    const auto exact = run_case(test, exact_lab, DType::kF64, *store);
    const auto result = run_case(test, lab, DType::kF32, *store);
    ASSERT_TRUE(exact) << exact.error().message;
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->dims(), exact->dims()) << result->dims().to_string();
    const auto expected = testing::values_of(*exact);
    const auto values = testing::values_of(*result);
    for (size_t i = 0; i < values.size(); ++i) {
      // Not EXPECT_NEAR: a NaN must fail too.
      ASSERT_TRUE(std::abs(values[i] - expected[i]) <= test.tolerance * std::max(1.0, std::abs(expected[i])))
          << "element " << i << " is " << values[i] << ", not " << expected[i];
    }
  });
}

// For weights of about 1 in size: each of k activations, at most 1, is rounded by at most 1 / (2 * 127 * 128), or by
// 2^-18 for bf16 weights.
TEST_P(Conformance, FastProductsComeWithinTheRoundingOfActivations) {
  if (!has_numerics()) GTEST_SKIP() << "the same as exact";
  const double rounding = is_block(param_dtype()) ? 1.0 / (2 * 127 * 128) : std::ldexp(1, -18);
  for_each_case([&](const ConformanceCase& test) {
    const auto store = testing::make_store(make_params(test, param_dtype()));
    Lab exact_lab;
    Lab lab(backend());
    const auto exact = run_case(test, exact_lab, DType::kF64, *store);
    const auto result = run_case(test, lab, DType::kF32, *store);
    ASSERT_TRUE(exact) << exact.error().message;
    ASSERT_TRUE(result) << result.error().message;
    const auto expected = testing::values_of(*exact);
    const auto values = testing::values_of(*result);
    const double terms = test.inputs.empty() ? 0 : static_cast<double>(test.inputs[0].back());
    for (size_t i = 0; i < values.size(); ++i) {
      const double scale = is_block(param_dtype()) ? 1 : std::max(1.0, std::abs(expected[i]));
      ASSERT_TRUE(std::abs(values[i] - expected[i]) <= test.tolerance * scale + 2 * terms * rounding) << i;
    }
  });
}

void expect_same_bits(const Result<Tensor>& a, const Result<Tensor>& b) {
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  const auto first = HostValues<std::byte>::of(*a), second = HostValues<std::byte>::of(*b);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->size(), second->size());
  const auto [at, other] = std::ranges::mismatch(*first, *second);
  ASSERT_TRUE(at == first->end()) << "element " << (at - first->begin()) / 4 << " differs";
}

TEST_P(Conformance, HasTheSameBitsForAnyNumberOfThreads) {
  for_each_case([&](const ConformanceCase& test) {
    const auto store = testing::make_store(make_params(test, param_dtype()));
    for (const Numerics numerics : all_numerics()) {
      Lab one(backend(), 1);
      one.context.numerics = numerics;
      const auto alone = run_case(test, one, DType::kF32, *store);
      for (const unsigned threads : {2U, 7U}) {
        SCOPED_TRACE(threads);
        Lab many(backend(), threads);
        many.context.numerics = numerics;
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(alone, run_case(test, many, DType::kF32, *store)));
      }
    }
  });
}

struct Listener : TraceSink {
  Status on_output(std::string_view, std::string_view, const Tensor&) override { return {}; }
};

// What is computed in one sweep is computed in steps then.
TEST_P(Conformance, HasTheSameBitsWhereSomebodyListens) {
  for_each_case([&](const ConformanceCase& test) {
    const auto store = testing::make_store(make_params(test, param_dtype()));
    for (const Numerics numerics : all_numerics()) {
      Lab alone(backend()), watched(backend());
      Listener listener;
      watched.context.trace = &listener;
      alone.context.numerics = watched.context.numerics = numerics;
      const auto expected = run_case(test, watched, DType::kF32, *store);
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(expected, run_case(test, alone, DType::kF32, *store)));
    }
  });
}

// The smallest budget that a store takes, by doubling.
std::unique_ptr<ParamStore> smallest_store(const ConformanceCase& test, DType dtype, uint64_t times) {
  for (uint64_t budget = 1; budget < uint64_t{1} << 30; budget *= 2) {
    ResidencyOptions options;
    options.budget = budget * times;
    options.keep_below = 0;
    auto store = ParamStore::open(make_param_source(make_params(test, dtype)), options);
    if (store) return *std::move(store);
  }
  return nullptr;
}

TEST_P(Conformance, HasTheSameBitsForTilesOfAnySize) {
  for_each_case([&](const ConformanceCase& test) {
    if (test.params.empty()) return;
    const auto whole = testing::make_store(make_params(test, param_dtype()));
    Lab lab(backend(), 2);
    for (const Numerics numerics : all_numerics()) {
      lab.context.numerics = numerics;
      const auto expected = run_case(test, lab, DType::kF32, *whole);
      for (const uint64_t times : {1U, 3U}) {
        SCOPED_TRACE(times);
        const auto store = smallest_store(test, param_dtype(), times);
        ASSERT_NE(store, nullptr);
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(expected, run_case(test, lab, DType::kF32, *store)));
        const ResidencyStats stats = store->stats();
        EXPECT_LE(stats.peak, stats.budget);
      }
    }
  });
}

TEST_P(Conformance, AllocatesNothingWhenItRunsAgain) {
  for_each_case([&](const ConformanceCase& test) {
    const auto store = testing::make_store(make_params(test, param_dtype()));
    Lab lab(backend(), 2);
    ASSERT_TRUE(run_case(test, lab, DType::kF32, *store));
    const uint64_t allocations = lab.workspace.allocations();
    ASSERT_TRUE(run_case(test, lab, DType::kF32, *store));
    EXPECT_EQ(lab.workspace.allocations(), allocations);
  });
}

class EveryBackend : public ::testing::TestWithParam<const Backend*> {
 protected:
  Tensor tensor(const std::vector<double>& values, const Dims& dims) { return lab.tensor(values, dims); }

  Lab lab{*GetParam(), 2};
  Context& context = lab.context;
};

INSTANTIATE_TEST_SUITE_P(Backends, EveryBackend, ::testing::ValuesIn(testing::tested_backends()),
                         [](const auto& test) { return std::string(test.param->name); });

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A broken weight must show in what a model says, whatever stands between.
TEST_P(EveryBackend, KeepsNan) {
  for (const uint64_t count : {1U, 5U, 40U}) {
    std::vector<double> values(count, 0.5);
    values[count / 2] = kNan;
    const Tensor x = tensor(values, {count});
    const Tensor ones = tensor(std::vector<double>(count, 1), {count});
    const auto is_kept = [&](const Result<Tensor>& y, size_t at) {
      return y && std::isnan(testing::values_of(*y)[at]);
    };
    const size_t at = count / 2;
    for (const UnaryOp op : testing::all_unary()) {
      EXPECT_TRUE(is_kept(ops::unary(context, op, x, 0.3), at)) << "unary " << static_cast<int>(op) << " of " << count;
    }
    for (const BinaryOp op :
         {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kMax, BinaryOp::kMin}) {
      EXPECT_TRUE(is_kept(ops::binary(context, op, x, ones), at)) << "binary " << static_cast<int>(op);
      EXPECT_TRUE(is_kept(ops::binary(context, op, ones, x), at)) << "binary " << static_cast<int>(op);
    }
    EXPECT_TRUE(is_kept(ops::softmax_last_dim(context, x), at));
    EXPECT_TRUE(is_kept(ops::clamp(context, x, 0, 1), at));
    const Tensor image = x.reshaped({1, 1, count, 1});
    EXPECT_TRUE(is_kept(ops::max_pool2d_nhwc(context, image, {.window_w = count}), 0));
  }
}

TEST_P(EveryBackend, HandlesTheEndsOfTheRange) {
  const Tensor x = tensor({-kInf, -1e30, -100, -20, 20, 100, 1e30, kInf}, {8});
  const auto expect = [&](const Result<Tensor>& y, const std::vector<double>& expected) {
    ASSERT_TRUE(y) << y.error().message;
    const auto values = testing::values_of(*y);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isinf(expected[i])) {
        EXPECT_EQ(values[i], expected[i]) << i;
      } else {
        EXPECT_NEAR(values[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << i;
      }
    }
  };
  const double big = 1e30F;
  expect(ops::relu(context, x), {0, 0, 0, 0, 20, 100, big, kInf});
  expect(ops::relu6(context, x), {0, 0, 0, 0, 6, 6, 6, 6});
  // At minus infinity these are infinity times nothing; below that they must be nothing and not NaN.
  const Tensor finite = tensor({-1e30, -1e4, -100, -20, 20, 100, 1e4, 1e30}, {8});
  for (const Activation variant : {Activation::kGeluErf, Activation::kGeluTanh}) {
    expect(ops::gelu(context, finite, variant), {0, 0, 0, 0, 20, 100, 1e4, big});
  }
  expect(ops::silu(context, finite), {0, 0, 0, -4.122307e-8, 20, 100, 1e4, big});
  expect(ops::softmax_last_dim(context, tensor({1e30, -1e30, 1e30, 0, 0, 0, -200, 3}, {2, 4})),
         {0.5, 0, 0.5, 0, 0.0452785, 0.0452785, 0, 0.909443});
}

// Rows of q | k | v count through their elements: what lies in the pages tells where it came from.
TEST_P(EveryBackend, PutsKeysAndValuesWhereTheirPositionsLie) {
  const ops::AttentionConfig config{.q_heads = 3, .kv_heads = 3, .head_dim = 4};
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    Queue& queue = context.workspace().queue();
    const KvPast past = testing::whole_past(
        {.layers = 2, .kv_heads = 3, .head_dim = 4, .most_positions = 200, .dtype = dtype}, queue.device());
    const KvRows rows{&past, 62, 3};  // across the end of a page
    std::vector<double> packed(3 * 36);
    for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<double>(i) / 128;
    ASSERT_TRUE(ops::attention_decode_cache(context, config, tensor(packed, {3, 36}), std::span(&rows, 1), 1));
    std::vector<std::vector<std::byte>> pages;
    for (const auto& page : past.pages[0]) {
      queue.copy_out({page.get(), 0}, pages.emplace_back(page->bytes()));
      ASSERT_TRUE(queue.finish());
    }
    const auto element = [&](uint64_t offset, uint64_t head, uint64_t position, uint64_t d) {
      const std::byte* plane = pages[position / kPagePositions].data() + offset;
      const uint64_t at = (head * kPagePositions + position % kPagePositions) * 4 + d;
      if (dtype == DType::kF32) return static_cast<double>(reinterpret_cast<const float*>(plane)[at]);
      return static_cast<double>(F16::decode(load_le<uint16_t>(plane + 2 * at)));
    };
    EXPECT_EQ(element(past.layout->keys_offset(1), 1, 64, 3), (2 * 36 + 12 + 4 + 3) / 128.0);
    EXPECT_EQ(element(past.layout->values_offset(1), 2, 63, 0), (36 + 24 + 8) / 128.0);
  }
}

TEST(Backends, AreFoundByTheirNames) {
  std::set<std::string_view> names;
  for (const Backend* backend : all_backends()) {
    EXPECT_EQ(find_backend(backend->name), backend);
    EXPECT_TRUE(names.insert(backend->name).second);
    EXPECT_FALSE(backend->level().empty());
    EXPECT_FALSE(backend->summary.empty());
  }
  EXPECT_TRUE(names.contains("reference"));
  EXPECT_EQ(find_backend("abacus"), nullptr);
}

}  // namespace
}  // namespace ballast
