// Reverse-mode differentiation. While a context has a tape, every functional writes down a step: what its gradient rule
// needs to bring the gradient of its output back to its inputs. The rule stands beside the functional; it is the same
// for all implementations, because they all compute the same function.
//
//   Tape tape(gradients);
//   context.tape = &tape;
//   BALLAST_TRY(const Tensor loss, ...);
//   BALLAST_CHECK(tape.backward(context, loss));   // gradients of parameters are in `gradients` now
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ballast/ops/ops.h"
#include "ballast/ops/param_gradients.h"

namespace ballast {

// One per context. Memory is kept from one backward pass to the next.
class Tape {
 public:
  explicit Tape(ParamGradients& params) : params_(params) {}
  ~Tape() { reset(); }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // ---------------------------------------------------------------- for whoever trains
  // The gradient of this tensor is wanted too, and kept until reset().
  void watch(const Tensor& x);
  // From a loss of one element, whose gradient is `seed`, to every followed tensor and parameter. Parameters' gradients
  // are added to what is there. Forgets the steps. kUnsupported names a functional that has no gradient.
  Status backward(Context& context, const Tensor& loss, double seed = 1);
  // Of a watched tensor, after backward(): null where nothing reached it.
  const Tensor* gradient(const Tensor& watched) const;
  // Forgets steps and watched tensors.
  void reset();

  // ---------------------------------------------------------------- for gradient rules
  // An input of a step, without keeping its values alive.
  class Input {
   public:
    bool is_followed() const { return slot_ != kNone; }
    const Dims& dims() const { return dims_; }

   private:
    friend class Tape;
    static constexpr uint32_t kNone = ~uint32_t{0};
    uint32_t slot_ = kNone;
    Dims dims_;
  };
  Input input(const Tensor& x) const;
  // A mark left by an earlier pass, or by a tape that is gone, does not count: this pass must know the memory too.
  bool follows(const Tensor& x) const {
    const WorkspaceBlock* block = x.block_;
    return block != nullptr && block->tape == this && block->tape_slot < slots_.size() &&
           slots_[block->tape_slot].block == block;
  }
  bool follows(const Param& param) const { return params_.trains(param); }
  bool follows(const Param* param) const { return param != nullptr && params_.trains(*param); }
  bool follows(const ops::Operand& operand) const {
    return operand.param() != nullptr ? follows(*operand.param()) : follows(*operand.tensor());
  }

  // `Step` has: Status backward(Context& context, const Tensor& dy, Tape& tape) const. Tensors in it stay alive until
  // it ran. Record only where an input is followed; where its output shares an input's memory (reshape, dropout that
  // drops nothing) there is nothing to record.
  template <typename Step>
  void record(const Tensor& output, Step step) {
    static_assert(alignof(Node<Step>) <= alignof(std::max_align_t));
    append(new (reserve(sizeof(Node<Step>))) Node<Step>(std::move(step)), output);
  }
  // For a functional without a rule: backward() fails where a gradient comes this way.
  void record_missing(const Tensor& output, std::string_view functional);

  // A copy of values that a step needs beside tensors, which lasts as long as the steps.
  template <typename T>
  std::span<const T> keep(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
    if (values.empty()) return {};
    return {static_cast<const T*>(std::memcpy(reserve(values.size_bytes()), values.data(), values.size_bytes())),
            values.size()};
  }
  std::span<const Input> keep_inputs(std::span<const Tensor> tensors);
  // How products rounded their operands in the steps to come: their gradients do the same. The registry says it.
  void set_product_dtype(DType dtype) { product_dtype_ = dtype; }

  // Adds to the gradient of an input; keeps `gradient` itself where it is the first. Nothing where it is not followed.
  Status add(Context& context, const Input& input, const Tensor& gradient);
  // A place of the input's shape to write or to add to; only where it is followed.
  Result<GradientPlace> place(Context& context, const Input& input, DType dtype);
  Result<GradientPlace> place(const Param& param, DType dtype) { return params_.place(param, dtype); }
  ParamGradients& params() { return params_; }

 private:
  struct AnyNode {
    virtual ~AnyNode() = default;
    virtual Status backward(Context& context, const Tensor& dy, Tape& tape) const = 0;
    uint32_t slot = 0;
    DType product_dtype = DType::kF32;
    Dims dims;
  };
  template <typename Step>
  struct Node final : AnyNode {
    explicit Node(Step&& step_) : step(std::move(step_)) {}
    Status backward(Context& context, const Tensor& dy, Tape& tape) const override {
      return step.backward(context, dy, tape);
    }
    Step step;
  };
  struct Slot {
    const WorkspaceBlock* block = nullptr;
    Tensor gradient;
    bool watched = false;
  };
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    size_t capacity = 0;
  };

  void* reserve(size_t bytes);
  void append(AnyNode* node, const Tensor& output);
  uint32_t follow(const Tensor& x);
  void drop_steps();
  Status run_back(Context& context);

  ParamGradients& params_;
  std::vector<AnyNode*> nodes_;
  std::vector<Slot> slots_;
  std::vector<Tensor> watched_;  // kept alive, so that their memory stays theirs
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // the one being filled
  size_t used_ = 0;   // of it
  DType product_dtype_ = DType::kF32;
};

}  // namespace ballast
