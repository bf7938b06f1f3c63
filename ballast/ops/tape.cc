#include "ballast/ops/tape.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/ops/update_routines.h"

namespace ballast {

namespace {

constexpr size_t kChunk = 64 << 10;

struct MissingStep {
  std::string_view functional;
  Status backward(Context&, const Tensor&, Tape&) const {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} has no gradient: a model that trains cannot use it", functional));
  }
};

Result<Tensor> filled(Context& context, const Dims& dims, DType dtype, double value) {
  BALLAST_TRY(Tensor tensor, context.workspace().make(dims, dtype));
  BALLAST_CHECK(context.registry().run(context, ops::FillArgs{tensor, value}));
  return tensor;
}

// While gradients are computed nothing is written down, and nobody listens to what rules compute; each rounds products
// as its functional did.
class Pause {
 public:
  explicit Pause(Context& context)
      : context_(context),
        tape_(std::exchange(context.tape, nullptr)),
        trace_(std::exchange(context.trace, nullptr)),
        product_dtype_(context.product_dtype) {}
  ~Pause() {
    context_.product_dtype = product_dtype_;
    context_.tape = tape_;
    context_.trace = trace_;
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Context& context_;
  Tape* tape_;
  TraceSink* trace_;
  DType product_dtype_;
};

}  // namespace

void* Tape::reserve(size_t bytes) {
  constexpr size_t kAlign = alignof(std::max_align_t);
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].capacity) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t capacity = std::max(kChunk, bytes);
    chunks_.push_back({std::make_unique<std::byte[]>(capacity), capacity});
  }
  void* const memory = chunks_[chunk_].memory.get() + used_;
  used_ += bytes;
  return memory;
}

uint32_t Tape::follow(const Tensor& x) {
  if (!follows(x)) {
    x.block_->tape = this;
    x.block_->tape_slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back().block = x.block_;
  }
  return x.block_->tape_slot;
}

void Tape::append(AnyNode* node, const Tensor& output) {
  node->dims = output.dims();
  node->product_dtype = product_dtype_;
  nodes_.push_back(node);
  node->slot = follow(output);
}

void Tape::record_missing(const Tensor& output, std::string_view functional) {
  record(output, MissingStep{functional});
}

void Tape::watch(const Tensor& x) {
  slots_[follow(x)].watched = true;
  watched_.push_back(x);
}

Tape::Input Tape::input(const Tensor& x) const {
  Input input;
  input.dims_ = x.dims();
  if (follows(x)) input.slot_ = x.block_->tape_slot;
  return input;
}

std::span<const Tape::Input> Tape::keep_inputs(std::span<const Tensor> tensors) {
  static_assert(std::is_trivially_destructible_v<Input> && alignof(Input) <= alignof(std::max_align_t));
  if (tensors.empty()) return {};
  auto* const inputs = static_cast<Input*>(reserve(tensors.size() * sizeof(Input)));
  for (size_t i = 0; i < tensors.size(); ++i) new (inputs + i) Input(input(tensors[i]));
  return {inputs, tensors.size()};
}

const Tensor* Tape::gradient(const Tensor& watched) const {
  if (!follows(watched)) return nullptr;
  const Tensor& gradient = slots_[watched.block_->tape_slot].gradient;
  return gradient.empty() ? nullptr : &gradient;
}

Status Tape::add(Context& context, const Input& input, const Tensor& gradient) {
  if (!input.is_followed()) return {};
  Tensor& sum = slots_[input.slot_].gradient;
  if (sum.empty()) {
    sum = gradient.reshaped(input.dims_);
    return {};
  }
  const Tensor more = gradient.reshaped(sum.dims());
  if (sum.is_shared()) return assign(sum, ops::add(context, sum, more));
  return context.registry().run(context, ops::AccumulateArgs{more, sum});
}

Result<GradientPlace> Tape::place(Context& context, const Input& input, DType dtype) {
  Tensor& sum = slots_[input.slot_].gradient;
  if (sum.empty()) {
    BALLAST_TRY(sum, context.workspace().make(input.dims_, dtype));
    return GradientPlace{&sum, false};
  }
  if (sum.is_shared()) {
    BALLAST_TRY(sum, context.workspace().copy(sum));
  }
  return GradientPlace{&sum, true};
}

Status Tape::backward(Context& context, const Tensor& loss, double seed) {
  if (loss.count() != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("gradients go out from a loss of one element, not from {}", loss.dims().to_string()));
  }
  Status done;
  if (follows(loss)) {
    const Pause pause(context);
    done = assign(slots_[loss.block_->tape_slot].gradient, filled(context, loss.dims(), loss.dtype(), seed));
    if (done) done = run_back(context);
  }
  drop_steps();
  return done;
}

Status Tape::run_back(Context& context) {
  while (!nodes_.empty()) {
    AnyNode* const node = nodes_.back();
    Slot& slot = slots_[node->slot];
    Status status;
    if (!slot.gradient.empty()) {
      const Tensor dy = slot.watched ? slot.gradient : std::move(slot.gradient);
      context.product_dtype = node->product_dtype;
      status = node->backward(context, dy.reshaped(node->dims), *this);
    }
    nodes_.pop_back();
    node->~AnyNode();  // what it kept is memory for the steps before it
    if (!status) return status;
  }
  return {};
}

void Tape::drop_steps() {
  while (!nodes_.empty()) {
    nodes_.back()->~AnyNode();
    nodes_.pop_back();
  }
  chunk_ = used_ = 0;
  if (watched_.empty()) slots_.clear();
}

void Tape::reset() {
  drop_steps();
  watched_.clear();
  slots_.clear();
}

}  // namespace ballast
