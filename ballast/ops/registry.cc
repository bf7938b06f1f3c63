#include "ballast/ops/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "ballast/base/near_miss.h"
#include "ballast/ops/tape.h"

namespace ballast {

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Outcome {
  Tensor output;
  std::string_view implementation;
  double begin = 0;
  double end = 0;
};

// What a benchmark policy found out, for the kinds of arguments that were used last.
class Memory {
 public:
  std::optional<std::string> recall(const std::string& arguments) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(arguments);
    if (found == index_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->implementation;
  }

  void remember(BenchmarkChoice choice, size_t most) {
    const std::lock_guard lock(mutex_);
    forget_locked(choice.arguments);
    order_.push_front(std::move(choice));
    index_.emplace(order_.front().arguments, order_.begin());
    while (order_.size() > most) forget_locked(std::string(order_.back().arguments));
  }

  void forget(const std::string& arguments) {
    const std::lock_guard lock(mutex_);
    forget_locked(arguments);
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    index_.clear();
    order_.clear();
  }

  void append_to(std::vector<BenchmarkChoice>& choices) const {
    const std::lock_guard lock(mutex_);
    choices.insert(choices.end(), order_.begin(), order_.end());
  }

 private:
  void forget_locked(const std::string& arguments) {
    const auto found = index_.find(arguments);
    if (found == index_.end()) return;
    const auto entry = found->second;
    index_.erase(found);
    order_.erase(entry);
  }

  mutable std::mutex mutex_;
  std::list<BenchmarkChoice> order_;  // used last in front
  std::unordered_map<std::string, std::list<BenchmarkChoice>::iterator> index_;
};

// "blocks.0.attention.qkv"
std::string layer_name(const Context& context, std::string_view label) {
  std::string name = context.prefix();
  name += label;
  if (name.ends_with('.')) name.pop_back();
  return name;
}

Error at_layer(const Context& context, std::string_view label, std::string_view functional, Error error) {
  const std::string layer = layer_name(context, label);
  error.message = fmt::format("{}{}{}: {}", layer, layer.empty() ? "" : ": ", functional, error.message);
  return error;
}

// While implementations are compared nobody listens: only one of them is part of the model's run.
class Silence {
 public:
  explicit Silence(Context& context)
      : context_(context),
        trace_(std::exchange(context.trace, nullptr)),
        profile_(std::exchange(context.profile, nullptr)) {}
  ~Silence() {
    context_.trace = trace_;
    context_.profile = profile_;
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  Context& context_;
  TraceSink* trace_;
  ProfileSink* profile_;
};

}  // namespace

struct Registry::State {
  struct Entry {
    std::vector<AnyImplementation> implementations;  // the built-in one last
    bool has_builtin = false;
    Policy policy;
    bool overridden = false;
    mutable Memory memory;

    const AnyImplementation* find(std::string_view name) const {
      const auto at = std::ranges::find(implementations, name, &AnyImplementation::name);
      return at == implementations.end() ? nullptr : &*at;
    }
    void update_overridden() {
      const bool forces_builtin =
          has_builtin && policy.kind == Policy::Kind::kForce && policy.name == implementations.back().name;
      const bool has_others = implementations.size() > (has_builtin ? 1 : 0);
      overridden = policy.kind == Policy::Kind::kBenchmark || (has_others && !forces_builtin);
    }
  };

  State() : entries(all_functionals().size()), routines(all_routines().size()) {}

  void update_overridden(Entry& entry) {
    entry.update_overridden();
    any_overridden = std::ranges::any_of(entries, &Entry::overridden);
  }

  // Chooses by the policy, and runs.
  Result<Outcome> run(const Entry& entry, Context& context, const AnyArgs& args) const;
  Result<Outcome> run_forced(const Entry& entry, Context& context, const AnyArgs& args) const;
  Result<Outcome> run_first(const Entry& entry, Context& context, const AnyArgs& args) const;
  Result<Outcome> run_benchmark(const Entry& entry, Context& context, const AnyArgs& args) const;
  Result<Outcome> run_fastest(const Entry& entry, Context& context, const AnyArgs& args, size_t& candidates) const;

  std::vector<Entry> entries;        // as all_functionals()
  std::vector<AnyRoutine> routines;  // as all_routines(); null: the backend has none
  bool any_overridden = false;
};

namespace {

std::string arguments_text(const Context& context, const std::string& text) {
  return fmt::format("{} on {}", text, context.backend().name);
}

template <typename AnyImplementation>
bool supports(const AnyImplementation& implementation, const Context& context, const void* args) {
  return !implementation.supports || implementation.supports(context, args);
}

template <typename AnyImplementation>
Result<Outcome> run_timed(const AnyImplementation& implementation, Context& context, const void* args) {
  const double begin = now_seconds();
  BALLAST_TRY(Tensor output, implementation.run(context, args));
  return Outcome{std::move(output), implementation.name, begin, now_seconds()};
}

}  // namespace

Result<Outcome> Registry::State::run_first(const Entry& entry, Context& context, const AnyArgs& args) const {
  for (const AnyImplementation& implementation : entry.implementations) {
    if (supports(implementation, context, args.args)) return run_timed(implementation, context, args.args);
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("no implementation supports {}", arguments_text(context, args.text(args.args))));
}

Result<Outcome> Registry::State::run_forced(const Entry& entry, Context& context, const AnyArgs& args) const {
  const AnyImplementation* implementation = entry.find(entry.policy.name);
  if (implementation != nullptr && supports(*implementation, context, args.args)) {
    return run_timed(*implementation, context, args.args);
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the implementation \"{}\", which its policy forces, does not support {}",
                                entry.policy.name, arguments_text(context, args.text(args.args))));
}

Result<Outcome> Registry::State::run_benchmark(const Entry& entry, Context& context, const AnyArgs& args) const {
  const std::string arguments = arguments_text(context, args.text(args.args));
  if (const auto known = entry.memory.recall(arguments)) {
    const AnyImplementation* implementation = entry.find(*known);
    if (implementation != nullptr && supports(*implementation, context, args.args)) {
      return run_timed(*implementation, context, args.args);
    }
    entry.memory.forget(arguments);
  }
  size_t candidates = 0;
  BALLAST_TRY(Outcome fastest, run_fastest(entry, context, args, candidates));
  if (candidates == 0) return run_first(entry, context, args);  // which says that none supports the arguments
  const auto functional = static_cast<size_t>(&entry - entries.data());
  entry.memory.remember(BenchmarkChoice{std::string(all_functionals()[functional].name), arguments,
                                        std::string(fastest.implementation), fastest.end - fastest.begin},
                        entry.policy.cache);
  return fastest;
}

// Runs each candidate twice and counts the better time: the first run of all reads the parameters from the disk.
Result<Outcome> Registry::State::run_fastest(const Entry& entry, Context& context, const AnyArgs& args,
                                             size_t& candidates) const {
  constexpr int kRuns = 2;
  const Silence silence(context);
  Outcome fastest;
  for (const AnyImplementation& implementation : entry.implementations) {
    if (!supports(implementation, context, args.args)) continue;
    ++candidates;
    for (int run = 0; run < kRuns; ++run) {
      BALLAST_TRY(Outcome outcome, run_timed(implementation, context, args.args));
      const bool faster = outcome.end - outcome.begin < fastest.end - fastest.begin;
      if (fastest.implementation.empty() || faster) fastest = std::move(outcome);
    }
  }
  return fastest;
}

Result<Outcome> Registry::State::run(const Entry& entry, Context& context, const AnyArgs& args) const {
  switch (entry.policy.kind) {
    case Policy::Kind::kForce: return run_forced(entry, context, args);
    case Policy::Kind::kBenchmark: return run_benchmark(entry, context, args);
    case Policy::Kind::kDefault: break;
  }
  return run_first(entry, context, args);
}

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;

size_t Registry::index_of(std::string_view name) {
  return static_cast<size_t>(find_functional(name) - all_functionals().data());
}

Status Registry::add_any(std::string_view name, AnyImplementation implementation) {
  State::Entry& entry = state_->entries[index_of(name)];
  if (implementation.name.empty()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: an implementation needs a name", name));
  }
  if (entry.find(implementation.name) != nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} has an implementation \"{}\" already", name, implementation.name));
  }
  auto& list = entry.implementations;
  list.insert(entry.has_builtin ? list.end() - 1 : list.end(), std::move(implementation));
  state_->update_overridden(entry);
  return {};
}

void Registry::add_any_builtin(std::string_view name, AnyImplementation implementation) {
  State::Entry& entry = state_->entries[index_of(name)];
  implementation.name = find_functional(name)->builtin;
  if (entry.has_builtin) entry.implementations.pop_back();
  entry.implementations.push_back(std::move(implementation));
  entry.has_builtin = true;
  state_->update_overridden(entry);
}

size_t Registry::routine_index(std::string_view name) {
  return static_cast<size_t>(find_routine(name) - all_routines().data());
}

void Registry::add_any_routine(std::string_view name, AnyRoutine run) { state_->routines[routine_index(name)] = run; }

Registry::AnyRoutine Registry::find_any_routine(size_t index) const { return state_->routines[index]; }

bool Registry::has_routine(std::string_view name) const { return find_any_routine(routine_index(name)) != nullptr; }

Error Registry::missing_routine(const Context& context, std::string_view name) {
  const RoutineInfo& info = *find_routine(name);
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the backend \"{}\" {}it has no routine {}, for {}", context.backend().name,
                                info.trains ? "cannot train: " : "cannot go on: ", info.name, info.summary));
}

namespace {

// Keys are long and differ in their last part, so that is what is compared.
Error unknown_functional(std::string_view key) {
  const size_t colons = key.rfind("::");
  const std::string_view last = colons == std::string_view::npos ? key : key.substr(colons + 2);
  std::vector<std::string_view> names;
  for (const FunctionalInfo& info : all_functionals()) names.push_back(info.name);
  const std::string_view meant = nearest(last, names);
  const FunctionalInfo* info = find_functional(meant);
  return make_error(
      ErrorCode::kInvalidArgument,
      info == nullptr
          ? fmt::format("there is no functional \"{}\"; there are {}", key, fmt::join(names, ", "))
          : fmt::format("there is no functional \"{}\"; did you mean \"{}\" ({})?", key, info->name, info->key));
}

Error unknown_implementation(std::string_view functional, std::string_view name,
                             const std::vector<std::string>& known) {
  const std::string_view meant = nearest(name, known);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} has no implementation \"{}\"; {}", functional, name,
                                meant.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                                              : fmt::format("did you mean \"{}\"?", meant)));
}

}  // namespace

Status Registry::set_policy(std::string_view key_or_name, const Policy& policy) {
  const FunctionalInfo* info = find_functional(key_or_name);
  if (info == nullptr) return unknown_functional(key_or_name);
  State::Entry& entry = state_->entries[index_of(info->name)];
  if (policy.kind == Policy::Kind::kForce && entry.find(policy.name) == nullptr) {
    return unknown_implementation(info->name, policy.name, implementations(info->name));
  }
  entry.policy = policy;
  entry.memory.clear();
  state_->update_overridden(entry);
  return {};
}

const Policy& Registry::policy(std::string_view name) const { return state_->entries[index_of(name)].policy; }

bool Registry::is_overridden(std::string_view name) const {
  return state_->any_overridden && state_->entries[index_of(name)].overridden;
}

std::vector<std::string> Registry::implementations(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& implementation : state_->entries[index_of(name)].implementations) {
    names.push_back(implementation.name);
  }
  return names;
}

Status Registry::check_any(size_t index, const Context& context, std::string_view label, const AnyArgs& args) {
  Status fits = args.check(args.args);
  if (fits) return fits;
  return at_layer(context, label, all_functionals()[index].name, std::move(fits).error());
}

Result<Tensor> Registry::call_any(size_t index, Context& context, const AnyArgs& args) const {
  const FunctionalInfo& info = all_functionals()[index];
  const State::Entry& entry = state_->entries[index];
  const std::string_view label = context.take_label();
  BALLAST_CHECK(check_any(index, context, label, args));
  const bool listened = context.trace != nullptr || context.profile != nullptr;
  std::string name;
  std::optional<Context::Scope> scope;
  if (listened) {
    const std::string_view own = label.empty() ? info.name : label;
    name = layer_name(context, own);
    scope.emplace(context, own);
  }
  Tape* const tape = std::exchange(context.tape, nullptr);  // what an implementation calls is part of its functional
  Result<Outcome> outcome = state_->run(entry, context, args);
  context.tape = tape;
  scope.reset();
  if (!outcome) {
    const bool unsupported = outcome.error().code == ErrorCode::kUnsupported;
    return unsupported ? at_layer(context, label, info.name, std::move(outcome).error()) : std::move(outcome).error();
  }
  if (context.profile != nullptr) {
    context.profile->on_functional(name, info.name, outcome->implementation, outcome->begin, outcome->end);
  }
  if (context.trace != nullptr) BALLAST_CHECK(context.trace->on_output(name, info.name, outcome->output));
  if (tape != nullptr) {
    tape->set_product_dtype(context.product_dtype);
    if (args.record != nullptr) args.record(args.args, *tape, outcome->output);
    else tape->record_missing(outcome->output, info.name);
  }
  return std::move(outcome->output);
}

std::vector<BenchmarkChoice> Registry::benchmark_choices() const {
  std::vector<BenchmarkChoice> choices;
  for (const State::Entry& entry : state_->entries) {
    const auto first = static_cast<std::ptrdiff_t>(choices.size());
    entry.memory.append_to(choices);
    std::ranges::sort(choices.begin() + first, choices.end(), {}, &BenchmarkChoice::arguments);
  }
  return choices;
}

}  // namespace ballast
