// What a functional needs besides its arguments: the backend, the registry of implementations, memory, threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/device/tensor.h"
#include "ballast/io/thread_pool.h"
#include "ballast/ops/backend.h"

namespace ballast {

class Registry;
class Tape;

// Where dropout's random numbers come from while a model trains: they depend on the seed, the step and the place in the
// step alone, so a run that was resumed draws what it would have drawn.
struct RandomStream {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t draws = 0;  // in this step; whoever begins a step sets it to 0

  uint64_t next_key();
};

// Is shown every functional's output as it is made.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // `name`: the layer's name and what it computed, "blocks.0.attention.qkv". An error stops the model.
  virtual Status on_output(std::string_view name, std::string_view functional, const Tensor& output) = 0;
};

// Is told how long each functional took.
class ProfileSink {
 public:
  virtual ~ProfileSink() = default;
  virtual void on_functional(std::string_view name, std::string_view functional, std::string_view implementation,
                             double begin_seconds, double end_seconds) = 0;
};

// One per running call; not shared between threads. What it points to must outlive it.
class Context {
 public:
  Context(const Backend& backend, const Registry& registry, Workspace& workspace, ThreadPool& threads)
      : backend_(backend), registry_(registry), workspace_(workspace), threads_(threads) {}

  const Backend& backend() const { return backend_; }
  const Registry& registry() const { return registry_; }
  Workspace& workspace() const { return workspace_; }
  ThreadPool& threads() const { return threads_; }

  TraceSink* trace = nullptr;
  ProfileSink* profile = nullptr;
  // While a model trains: functionals write down how to go back.
  Tape* tape = nullptr;
  RandomStream* random = nullptr;
  // The type that products round their operands to; sums stay f32. kF32: none of it.
  DType product_dtype = DType::kF32;
  // Of products with weights in blocks or in bf16.
  Numerics numerics = Numerics::kFast;

  // Somebody is shown what each functional computes, or goes back through it: what could be one is several then.
  bool shows_steps() const { return trace != nullptr || profile != nullptr || tape != nullptr; }

  // Names what the next functional computes: ops::linear(context.at("attention.qkv"), ...). The text must live until
  // then. Costs nothing unless someone listens.
  Context& at(std::string_view label) {
    label_ = label;
    return *this;
  }
  std::string_view take_label() { return std::exchange(label_, {}); }

  // A part of the model, while this lives: names below it begin with "blocks.3.".
  class Scope {
   public:
    Scope(Context& context, std::string_view part, uint64_t index);
    Scope(Context& context, std::string_view part);
    ~Scope() { context_.prefix_.resize(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Context& context_;
    size_t before_;
  };
  const std::string& prefix() const { return prefix_; }

 private:
  const Backend& backend_;
  const Registry& registry_;
  Workspace& workspace_;
  ThreadPool& threads_;
  std::string_view label_;
  std::string prefix_;
};

}  // namespace ballast
