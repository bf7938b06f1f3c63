// Which implementations each functional has, and which of them a model uses.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/ops/context.h"

namespace ballast {

// A functional's row: the key that configs use, and the name of the implementation that a backend has for it.
struct FunctionalInfo {
  std::string_view key;      // "gpt_rs::ops::functional::linalg::matmul"
  std::string_view name;     // "matmul"
  std::string_view builtin;  // "matmul_a_b"
  std::string_view summary;
};
std::span<const FunctionalInfo> all_functionals();
const FunctionalInfo* find_functional(std::string_view key_or_name);

// A routine's row. Routines are what gradient rules, optimizers, the tape and caches ask of a backend: they write into
// tensors that are given. There is one of each, so no policy chooses among them.
struct RoutineInfo {
  std::string_view name;     // "softmax_gradient"
  std::string_view summary;  // "gradients of softmax"
  bool trains = true;        // only training needs it
};
std::span<const RoutineInfo> all_routines();
const RoutineInfo* find_routine(std::string_view name);

// How a model chooses among implementations.
struct Policy {
  enum class Kind : uint8_t {
    kDefault,    // the first that supports the arguments; those added come before the built-in one
    kForce,      // this one, or an error
    kBenchmark,  // the fastest, found by running each twice per kind of arguments: the first run reads parameters
  };
  Kind kind = Kind::kDefault;
  std::string name{};  // kForce
  size_t cache = 128;  // kBenchmark: kinds of arguments remembered

  friend bool operator==(const Policy&, const Policy&) = default;
};
// "", "force=<name>", "benchmark", "benchmark(cache=N)", as gpt.rs spells them.
Result<Policy> parse_policy(std::string_view text);
std::string to_text(const Policy& policy);

// What a benchmark policy chose, for people.
struct BenchmarkChoice {
  std::string functional;
  std::string arguments;  // shapes, as text
  std::string implementation;
  double seconds = 0;
};

// `Args` is the argument struct of a functional (activation.h, linalg.h, ...); it has
//   static constexpr std::string_view kFunctional;     its name in the table
//   Status check() const;                              do the shapes and types fit each other?
//   std::string text() const;                          shapes and types, for errors and for the benchmark's memory
//   void record(Tape& tape, const Tensor& y) const;    its gradient rule: see tape.h. Absent where it has none
// One that fuses others has two more, and is computed by those where a model brings an implementation of its own:
//   bool is_taken_apart(const Context& context) const;
//   Result<Tensor> run_in_steps(Context& context) const;
template <typename Args>
struct Implementation {
  std::string name;
  // Null: supports everything.
  std::function<bool(const Context& context, const Args& args)> supports;
  std::function<Result<Tensor>(Context& context, const Args& args)> run;
};

// Calls may come from several threads at once; adding and setting policies may not overlap with them.
class Registry {
 public:
  Registry();  // no implementations, default policies
  ~Registry();
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;

  // What a backend computes by itself, under the name that the table gives it. Replaces one that is there. `supports`
  // null: everything.
  template <typename Args>
  void add_builtin(bool (*supports)(const Context&, const Args&), Result<Tensor> (*run)(Context&, const Args&));
  // Before the built-in one, behind others that were added. kInvalidArgument for a name that the functional already
  // has.
  template <typename Args>
  Status add(Implementation<Args> implementation);

  // `Args` has: static constexpr std::string_view kRoutine, its name in the table. Replaces one that is there.
  template <typename Args>
  void add_routine(Status (*run)(Context&, const Args&));
  // kUnsupported names a routine that the context's backend lacks.
  template <typename Args>
  Status run(Context& context, const Args& args) const;
  bool has_routine(std::string_view name) const;

  // An unknown key and an unknown implementation are kInvalidArgument and name near misses.
  Status set_policy(std::string_view key_or_name, const Policy& policy);
  // Of a functional that there is.
  const Policy& policy(std::string_view name) const;
  // True where anything but the built-in implementation may run: fused forms take themselves apart then.
  bool is_overridden(std::string_view name) const;
  // Names, in the order in which the default policy asks them.
  std::vector<std::string> implementations(std::string_view name) const;

  // Checks the arguments, runs the implementation that the policy chooses, and shows the output to the context's
  // listeners. What an implementation calls in its turn is shown too, under the name of the outer call.
  template <typename Args>
  Result<Tensor> call(Context& context, const Args& args) const;
  // Only what call() checks first, with the same errors: for one that fuses others and is computed by those instead.
  template <typename Args>
  Status check(Context& context, const Args& args) const;

  // By functional and arguments.
  std::vector<BenchmarkChoice> benchmark_choices() const;

 private:
  // The same without the type of the arguments, so that the rest need not be in a header.
  struct AnyImplementation {
    std::string name;
    std::function<bool(const Context& context, const void* args)> supports;
    std::function<Result<Tensor>(Context& context, const void* args)> run;
  };
  struct AnyArgs {
    const void* args;
    Status (*check)(const void* args);
    std::string (*text)(const void* args);
    void (*record)(const void* args, Tape& tape, const Tensor& output) = nullptr;  // null: no gradient
  };
  struct State;

  using AnyRoutine = void (*)();  // of the type that add_routine was given

  static size_t index_of(std::string_view name);
  static size_t routine_index(std::string_view name);
  Status add_any(std::string_view name, AnyImplementation implementation);
  void add_any_builtin(std::string_view name, AnyImplementation implementation);
  void add_any_routine(std::string_view name, AnyRoutine run);
  AnyRoutine find_any_routine(size_t index) const;  // null: there is none
  static Error missing_routine(const Context& context, std::string_view name);
  static Status check_any(size_t index, const Context& context, std::string_view label, const AnyArgs& args);
  Result<Tensor> call_any(size_t index, Context& context, const AnyArgs& args) const;

  std::unique_ptr<State> state_;
};

// How a backend that has nothing better computes a functional that fuses others.
template <typename Args>
Result<Tensor> run_by_parts(Context& context, const Args& args) {
  return args.run_in_steps(context);
}

template <typename Args>
Status Registry::add(Implementation<Args> implementation) {
  AnyImplementation any;
  any.name = std::move(implementation.name);
  if (implementation.supports) {
    any.supports = [supports = std::move(implementation.supports)](const Context& context, const void* args) {
      return supports(context, *static_cast<const Args*>(args));
    };
  }
  any.run = [run = std::move(implementation.run)](Context& context, const void* args) {
    return run(context, *static_cast<const Args*>(args));
  };
  return add_any(Args::kFunctional, std::move(any));
}

template <typename Args>
void Registry::add_builtin(bool (*supports)(const Context&, const Args&),
                           Result<Tensor> (*run)(Context&, const Args&)) {
  AnyImplementation any;
  if constexpr (requires(const Args& args, Context& context) { args.run_in_steps(context); }) {
    any.supports = [supports](const Context& context, const void* any_args) {
      const auto& args = *static_cast<const Args*>(any_args);
      return args.is_taken_apart(context) || supports == nullptr || supports(context, args);
    };
    any.run = [run](Context& context, const void* any_args) {
      const auto& args = *static_cast<const Args*>(any_args);
      return args.is_taken_apart(context) ? args.run_in_steps(context) : run(context, args);
    };
  } else {
    if (supports != nullptr) {
      any.supports = [supports](const Context& context, const void* any_args) {
        return supports(context, *static_cast<const Args*>(any_args));
      };
    }
    any.run = [run](Context& context, const void* any_args) {
      return run(context, *static_cast<const Args*>(any_args));
    };
  }
  add_any_builtin(Args::kFunctional, std::move(any));
}

template <typename Args>
void Registry::add_routine(Status (*run)(Context&, const Args&)) {
  add_any_routine(Args::kRoutine, reinterpret_cast<AnyRoutine>(run));
}

template <typename Args>
Status Registry::run(Context& context, const Args& args) const {
  static const size_t index = routine_index(Args::kRoutine);
  const AnyRoutine any = find_any_routine(index);
  if (any == nullptr) return missing_routine(context, Args::kRoutine);
  return reinterpret_cast<Status (*)(Context&, const Args&)>(any)(context, args);
}

template <typename Args>
Result<Tensor> Registry::call(Context& context, const Args& args) const {
  static const size_t index = index_of(Args::kFunctional);
  AnyArgs any{&args, [](const void* any_args) { return static_cast<const Args*>(any_args)->check(); },
              [](const void* any_args) { return static_cast<const Args*>(any_args)->text(); }};
  if constexpr (requires(Tape & tape, const Tensor& y) { args.record(tape, y); }) {
    any.record = [](const void* any_args, Tape& tape, const Tensor& y) {
      static_cast<const Args*>(any_args)->record(tape, y);
    };
  }
  return call_any(index, context, any);
}

template <typename Args>
Status Registry::check(Context& context, const Args& args) const {
  static const size_t index = index_of(Args::kFunctional);
  const AnyArgs any{&args, [](const void* any_args) { return static_cast<const Args*>(any_args)->check(); }, nullptr};
  return check_any(index, context, context.take_label(), any);
}

}  // namespace ballast
