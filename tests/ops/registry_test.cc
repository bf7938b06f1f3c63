#include "ballast/ops/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "ballast/device/host_access.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/linalg.h"
#include "tests/support/ops_testing.h"

namespace ballast {
namespace {

using ops::ReluArgs;
using testing::Lab;
using testing::values_of;

// An implementation of relu that gives a constant, so that one sees which ran.
Implementation<ReluArgs> constant(const std::string& name, float value, std::atomic<int>* runs = nullptr,
                                  std::chrono::milliseconds delay = {}) {
  return {name, nullptr, [=](Context& context, const ReluArgs& args) -> Result<Tensor> {
            if (runs != nullptr) ++*runs;
            std::this_thread::sleep_for(delay);
            return context.workspace().from(std::vector<float>(args.x.count(), value), args.x.dims());
          }};
}

double relu_of_one(Lab& lab) {
  const auto y = ops::relu(lab.context, lab.tensor({1, 1}, {2}));
  EXPECT_TRUE(y) << y.error().message;
  return y ? values_of(*y)[0] : -1;
}

Policy policy_of(std::string_view text) { return *parse_policy(text); }

TEST(Registry, RunsTheBuiltInImplementationByDefault) {
  Lab lab;
  EXPECT_EQ(relu_of_one(lab), 1);
  EXPECT_FALSE(lab.registry.is_overridden("relu"));
}

TEST(Registry, PrefersAddedImplementationsInTheirOrder) {
  Lab lab;
  ASSERT_TRUE(lab.registry.add(constant("first", 10)));
  ASSERT_TRUE(lab.registry.add(constant("second", 20)));
  EXPECT_EQ(lab.registry.implementations("relu"), (std::vector<std::string>{"first", "second", "relu_x"}));
  EXPECT_EQ(relu_of_one(lab), 10);
  EXPECT_TRUE(lab.registry.is_overridden("relu"));
  EXPECT_FALSE(lab.registry.is_overridden("relu6"));
}

TEST(Registry, PassesOverWhatDoesNotSupportTheArguments) {
  Lab lab;
  Implementation<ReluArgs> matrices = constant("matrices", 10);
  matrices.supports = [](const Context&, const ReluArgs& args) { return args.x.dims().rank() == 2; };
  ASSERT_TRUE(lab.registry.add(std::move(matrices)));
  EXPECT_EQ(relu_of_one(lab), 1);
  EXPECT_EQ(values_of(*ops::relu(lab.context, lab.tensor({1, 1}, {1, 2})))[0], 10);
}

TEST(Registry, RefusesASecondImplementationOfTheSameName) {
  Lab lab;
  ASSERT_TRUE(lab.registry.add(constant("mine", 10)));
  const Status again = lab.registry.add(constant("mine", 20));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "relu has an implementation \"mine\" already");
  EXPECT_FALSE(lab.registry.add(constant("relu_x", 20)));
  EXPECT_FALSE(lab.registry.add(constant("", 20)));
}

TEST(Registry, ForcesAnImplementation) {
  Lab lab;
  ASSERT_TRUE(lab.registry.add(constant("first", 10)));
  ASSERT_TRUE(lab.registry.add(constant("second", 20)));
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("force=second")));
  EXPECT_EQ(relu_of_one(lab), 20);
  ASSERT_TRUE(lab.registry.set_policy("gpt_rs::ops::functional::activation::relu", policy_of("force=relu_x")));
  EXPECT_EQ(relu_of_one(lab), 1);
  EXPECT_FALSE(lab.registry.is_overridden("relu"));
  ASSERT_TRUE(lab.registry.set_policy("relu", Policy{}));
  EXPECT_EQ(relu_of_one(lab), 10);
}

TEST(Registry, ForcingWhatDoesNotSupportTheArgumentsIsAnError) {
  Lab lab;
  Implementation<ReluArgs> never = constant("never", 10);
  never.supports = [](const Context&, const ReluArgs&) { return false; };
  ASSERT_TRUE(lab.registry.add(std::move(never)));
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("force=never")));
  const auto y = ops::relu(lab.context, lab.tensor({1, 1}, {2}));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(y.error().message,
            "relu: the implementation \"never\", which its policy forces, does not support f32 [2] on reference");
}

TEST(Registry, UnknownNamesAreErrorsWithNearMisses) {
  Lab lab;
  Registry& registry = lab.registry;
  const auto message = [&](std::string_view key, std::string_view policy) {
    const Status status = registry.set_policy(key, policy_of(policy));
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    return status.error().message;
  };
  EXPECT_EQ(message("gpt_rs::ops::linalg::matmull", ""),
            "there is no functional \"gpt_rs::ops::linalg::matmull\"; did you mean \"matmul\" "
            "(gpt_rs::ops::functional::linalg::matmul)?");
  EXPECT_NE(message("xyzzyxyzzy", "").find("; there are relu, relu6, "), std::string::npos);
  EXPECT_EQ(message("matmul", "force=matmul_ab"),
            "matmul has no implementation \"matmul_ab\"; did you mean \"matmul_a_b\"?");
  EXPECT_EQ(message("matmul", "force=cutlass"), "matmul has no implementation \"cutlass\"; it has matmul_a_b");
  EXPECT_EQ(registry.policy("matmul"), Policy{});
}

TEST(Registry, BenchmarkKeepsTheFastestForEachKindOfArguments) {
  Lab lab;
  std::atomic<int> slow_runs = 0;
  std::atomic<int> quick_runs = 0;
  ASSERT_TRUE(lab.registry.add(constant("slow", 10, &slow_runs, std::chrono::milliseconds(20))));
  ASSERT_TRUE(lab.registry.add(constant("quick", 20, &quick_runs, std::chrono::milliseconds(10))));
  ASSERT_TRUE(lab.registry.add(constant("slower", 30, nullptr, std::chrono::milliseconds(30))));
  // The built-in one would be faster still.
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("benchmark")));
  EXPECT_EQ(relu_of_one(lab), 1);
  EXPECT_EQ(slow_runs, 2);
  EXPECT_EQ(quick_runs, 2);
  EXPECT_EQ(relu_of_one(lab), 1);
  EXPECT_EQ(slow_runs, 2) << "the choice must be remembered";
  ASSERT_TRUE(ops::relu(lab.context, lab.tensor({1, 1, 1}, {3})));
  EXPECT_EQ(slow_runs, 4) << "other arguments must be timed anew";

  const auto choices = lab.registry.benchmark_choices();
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].functional, "relu");
  EXPECT_EQ(choices[0].arguments, "f32 [2] on reference");
  EXPECT_EQ(choices[1].arguments, "f32 [3] on reference");
  EXPECT_EQ(choices[0].implementation, "relu_x");
  EXPECT_GT(choices[0].seconds, 0);
  EXPECT_LT(choices[0].seconds, 0.02);
}

TEST(Registry, BenchmarkForgetsWhatWasUsedLongestAgo) {
  Lab lab;
  std::atomic<int> runs = 0;
  ASSERT_TRUE(lab.registry.add(constant("counted", 10, &runs, std::chrono::milliseconds(20))));
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("benchmark(cache=2)")));
  const auto run = [&](uint64_t count) {
    const int before = runs;
    EXPECT_TRUE(ops::relu(lab.context, lab.tensor(std::vector<double>(count), {count})));
    return runs - before;
  };
  EXPECT_EQ(run(1), 2);
  EXPECT_EQ(run(2), 2);
  EXPECT_EQ(run(1), 0);
  EXPECT_EQ(run(3), 2) << "drops 2, which was used longest ago";
  EXPECT_EQ(run(1), 0);
  EXPECT_EQ(run(2), 2);
  EXPECT_EQ(lab.registry.benchmark_choices().size(), 2U);
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("benchmark")));
  EXPECT_TRUE(lab.registry.benchmark_choices().empty());
}

TEST(Registry, BenchmarkStopsAtACandidateThatFails) {
  Lab lab;
  ASSERT_TRUE(
      lab.registry.add(Implementation<ReluArgs>{"broken", nullptr, [](Context&, const ReluArgs&) -> Result<Tensor> {
                                                  return make_error(ErrorCode::kIo, "no disk");
                                                }}));
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("benchmark")));
  const auto y = ops::relu(lab.context, lab.tensor({1}, {1}));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().message, "no disk");
}

TEST(Registry, SaysWhenNothingSupportsTheArguments) {
  Backend empty{};
  empty.name = "empty";
  empty.add_implementations = [](Registry&) {};
  Lab lab(empty);
  const auto y = ops::relu(lab.context.at("act"), lab.tensor({1}, {1}));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(y.error().message, "act: relu: no implementation supports f32 [1] on empty");
}

// What a program adds to a backend that computes nothing by itself is not built in.
TEST(Registry, CountsWhatAProgramAddsAsAnOverrideWhereTheBackendHasNothing) {
  Backend empty{};
  empty.name = "empty";
  empty.add_implementations = [](Registry&) {};
  Lab lab(empty);
  EXPECT_FALSE(lab.registry.is_overridden("relu"));
  ASSERT_TRUE(lab.registry.add(constant("mine", 10)));
  EXPECT_TRUE(lab.registry.is_overridden("relu"));
  EXPECT_EQ(relu_of_one(lab), 10);
}

TEST(Registry, GivesABackendsImplementationTheLastPlaceWheneverItIsAdded) {
  Registry registry;
  ASSERT_TRUE(registry.add(constant("mine", 10)));
  const auto built_in = [](Context&, const ReluArgs& args) -> Result<Tensor> { return args.x; };
  registry.add_builtin<ReluArgs>(nullptr, built_in);
  EXPECT_EQ(registry.implementations("relu"), (std::vector<std::string>{"mine", "relu_x"}));
  registry.add_builtin<ReluArgs>(nullptr, built_in);
  EXPECT_EQ(registry.implementations("relu"), (std::vector<std::string>{"mine", "relu_x"}));
}

TEST(Registry, ServesSeveralThreadsAtOnce) {
  Lab lab;
  Registry& registry = lab.registry;
  std::atomic<int> runs = 0;
  ASSERT_TRUE(registry.add(constant("mine", 10, &runs)));
  ASSERT_TRUE(registry.set_policy("relu", policy_of("benchmark(cache=2)")));
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Workspace workspace;
      ThreadPool pool(1);
      Context context(*find_backend("reference"), registry, workspace, pool);
      for (uint64_t n = 0; n < 200; ++n) {
        const Tensor x = *workspace.zeros({n % 5 + 1});
        if (!ops::relu(context, x)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(registry.benchmark_choices().size(), 2U);
}

// Two models with different overrides are two registries.
TEST(Registry, IsOneModelsOwn) {
  Lab one;
  Lab two;
  ASSERT_TRUE(one.registry.add(constant("mine", 10)));
  std::thread other([&] { EXPECT_EQ(relu_of_one(two), 1); });
  EXPECT_EQ(relu_of_one(one), 10);
  other.join();
}

struct Seen {
  std::string name, functional;
  double first;
};
class Recorder : public TraceSink, public ProfileSink {
 public:
  Status on_output(std::string_view name, std::string_view functional, const Tensor& output) override {
    if (name == stop_at) return make_error(ErrorCode::kCancelled, "stop");
    outputs.push_back({std::string(name), std::string(functional), output.count() > 0 ? values_of(output)[0] : 0});
    return {};
  }
  void on_functional(std::string_view name, std::string_view, std::string_view implementation, double begin,
                     double end) override {
    EXPECT_LE(begin, end);
    timed.push_back(std::string(name) + " " + std::string(implementation));
  }
  std::string stop_at;
  std::vector<Seen> outputs;
  std::vector<std::string> timed;
};

TEST(Registry, ShowsEveryOutputUnderTheNameOfItsLayer) {
  Lab lab;
  Recorder recorder;
  lab.context.trace = &recorder;
  lab.context.profile = &recorder;
  const Tensor x = lab.tensor({1, 8}, {2});
  {
    const Context::Scope block(lab.context, "blocks", 3);
    const Context::Scope part(lab.context, "mlp");
    ASSERT_TRUE(ops::relu(lab.context.at("act"), x));
    ASSERT_TRUE(ops::relu6(lab.context, x));
  }
  ASSERT_TRUE(ops::add(lab.context.at("sum"), x, x));
  EXPECT_TRUE(lab.context.prefix().empty());
  ASSERT_EQ(recorder.outputs.size(), 3U);
  EXPECT_EQ(recorder.outputs[0].name, "blocks.3.mlp.act");
  EXPECT_EQ(recorder.outputs[0].functional, "relu");
  EXPECT_EQ(recorder.outputs[1].name, "blocks.3.mlp.relu6");
  EXPECT_EQ(recorder.outputs[2].name, "sum");
  EXPECT_EQ(recorder.outputs[2].functional, "binary");
  EXPECT_EQ(recorder.outputs[2].first, 2);
  EXPECT_EQ(recorder.timed,
            (std::vector<std::string>{"blocks.3.mlp.act relu_x", "blocks.3.mlp.relu6 relu6_x", "sum binary_op_a_b"}));
}

TEST(Registry, StopsTheModelWhereAListenerFails) {
  Lab lab;
  Recorder recorder;
  recorder.stop_at = "act";
  lab.context.trace = &recorder;
  const auto y = ops::relu(lab.context.at("act"), lab.tensor({1}, {1}));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kCancelled);
}

TEST(Registry, ShowsNobodyTheRunsOfABenchmarkButTheChosenOne) {
  Lab lab;
  Recorder recorder;
  lab.context.trace = &recorder;
  ASSERT_TRUE(lab.registry.add(constant("slow", 10, nullptr, std::chrono::milliseconds(20))));
  ASSERT_TRUE(lab.registry.set_policy("relu", policy_of("benchmark")));
  EXPECT_EQ(relu_of_one(lab), 1);
  ASSERT_EQ(recorder.outputs.size(), 1U);
  EXPECT_EQ(recorder.outputs[0].first, 1);
  EXPECT_EQ(lab.context.trace, &recorder);
}

struct FusedLinear : ::testing::Test {
  FusedLinear() {
    std::vector<MemoryParam> params;
    params.push_back(testing::make_param("w", DType::kF32, {37, 29}, testing::random_values(1, 37 * 29)));
    params.push_back(testing::make_param("b", DType::kF32, {29}, testing::random_values(2, 29)));
    store = testing::make_store(std::move(params));
    weight = testing::param_of(*store, "w");
    bias = testing::param_of(*store, "b");
    x = lab.tensor(testing::random_values(3, 5 * 37), {5, 37});
    residual = lab.tensor(testing::random_values(4, 5 * 29), {5, 29});
  }
  Result<Tensor> run() {
    return ops::linear(lab.context.at("ffn"), x, weight,
                       {.bias = &bias, .activation = Activation::kGeluErf, .residual = &residual});
  }
  std::unique_ptr<ParamStore> store;
  Lab lab;
  Param weight, bias;
  Tensor x, residual;
};

TEST_F(FusedLinear, TakesItselfApartToTheSameBits) {
  const auto fused = run();
  ASSERT_TRUE(fused) << fused.error().message;
  int calls = 0;
  ASSERT_TRUE(
      lab.registry.add(Implementation<ops::GeluArgs>{"mine", nullptr, [&](Context& context, const ops::GeluArgs& args) {
                                                       ++calls;
                                                       return ops::unary(context, UnaryOp::kGeluErf, args.x);
                                                     }}));
  Recorder recorder;
  lab.context.trace = &recorder;
  const auto apart = run();
  ASSERT_TRUE(apart) << apart.error().message;
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(host_bytes(*fused).size(), host_bytes(*apart).size());
  EXPECT_EQ(std::memcmp(host_bytes(*fused).data(), host_bytes(*apart).data(), host_bytes(*fused).size()), 0);
  std::vector<std::string> names;
  for (const Seen& seen : recorder.outputs) names.push_back(seen.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ffn.matmul", "ffn.add_bias", "ffn.gelu.unary", "ffn.gelu", "ffn.binary",
                                             "ffn"}));
}

TEST_F(FusedLinear, OfSeveralWeightsShowsItsStepsAndUsesWhatAModelBrings) {
  const ops::LinearPart parts[] = {{weight, {.bias = &bias}, "gate"}, {weight, {}, "up"}};
  const auto run_parts = [&] {
    return ops::linear_parts(lab.context, x, parts, {.is_gated = true, .gate = Activation::kSilu, .label = "hidden"});
  };
  const auto fused = run_parts();
  ASSERT_TRUE(fused) << fused.error().message;
  Recorder recorder;
  lab.context.trace = &recorder;
  const auto shown = run_parts();
  ASSERT_TRUE(shown) << shown.error().message;
  std::vector<std::string> names;
  for (const Seen& seen : recorder.outputs) names.push_back(seen.name + " " + seen.functional);
  EXPECT_EQ(names, (std::vector<std::string>{"gate linear", "up linear", "hidden swiglu"}));
  EXPECT_EQ(std::memcmp(host_bytes(*fused).data(), host_bytes(*shown).data(), host_bytes(*fused).size()), 0);
  lab.context.trace = nullptr;
  int calls = 0;
  ASSERT_TRUE(lab.registry.add(
      Implementation<ops::SwigluArgs>{"mine", nullptr, [&](Context&, const ops::SwigluArgs& args) -> Result<Tensor> {
                                        ++calls;
                                        return args.gate;
                                      }}));
  ASSERT_TRUE(run_parts());
  EXPECT_EQ(calls, 1);
}

TEST_F(FusedLinear, UsesTheMatmulThatAModelBrings) {
  int calls = 0;
  ASSERT_TRUE(lab.registry.add(
      Implementation<ops::MatmulArgs>{"zeros", nullptr, [&](Context& context, const ops::MatmulArgs& args) {
                                        ++calls;
                                        return context.workspace().zeros({args.a.dims()[0], args.b.dims()[1]});
                                      }}));
  const auto y = run();
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(calls, 1);
}

TEST_F(FusedLinear, AllocatesNothingWhenItRunsAgain) {
  ASSERT_TRUE(run());
  const uint64_t allocations = lab.workspace.allocations();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run());
  EXPECT_EQ(lab.workspace.allocations(), allocations);
}

}  // namespace
}  // namespace ballast
