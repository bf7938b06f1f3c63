// A layer: what it is called, what it was made with, the tensors it has, and what it computes. It owns no memory: the
// model that it is part of does, and hands it its parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/ops/ops.h"
#include "ballast/params/trained_params.h"

namespace ballast::nn {

// How a tensor begins. The distributions are netcl's, drawn from a generator that counts.
struct Initial {
  enum class Kind : uint8_t { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  double scale = 0;  // the constant; uniform in +-scale; the standard deviation

  static Initial constant(double value) { return {Kind::kConstant, value}; }
  static Initial uniform(double bound) { return {Kind::kUniform, bound}; }
  static Initial normal(double deviation) { return {Kind::kNormal, deviation}; }
};

struct LayerTensor {
  std::string key;  // "weight", "attn.qkv.weight"
  Shape shape;
  Initial initial;
  bool trained = true;  // false: a buffer, such as running statistics
};

// A value between layers. Images are given and taken with channels second and lie with channels last in between.
struct Value {
  Tensor tensor;
  bool channels_last = false;  // the tensor is [n, h, w, c], and means [n, c, h, w]
};

// What a layer wants of a value with four dimensions.
enum class Order : uint8_t {
  kAny,           // elementwise
  kChannelsLast,  // images
  kAsGiven,       // the dimensions as the user counts them
};

struct Pass {
  Context& context;
  bool training = false;
  TrainedParams* memory = nullptr;  // where running statistics are written; null: nowhere
  // Is shown what each layer gives, but nothing of layers inside of layers. An error stops the pass.
  std::function<Status(size_t layer, const Value& y)> watch = nullptr;
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& type() const { return type_; }
  // The arguments as one JSON object, in the order and spelling that netcl writes.
  const std::string& args() const { return args_; }
  // Whether netcl's own save_model takes such a layer.
  bool netcl_saves() const { return netcl_saves_; }
  std::span<const LayerTensor> tensors() const { return tensors_; }

  virtual Order order() const { return Order::kAny; }
  virtual Result<Value> forward(Pass& pass, const Value& x) const = 0;
  // Whether relu can be computed with this layer in one sweep.
  virtual bool fuses_relu() const { return false; }
  virtual Result<Value> forward_relu(Pass& pass, const Value& x) const { return forward(pass, x); }

  // One per tensor, in their order. Overridden by layers that have layers inside.
  virtual Status bind(std::vector<Param> params) {
    params_ = std::move(params);
    return {};
  }
  // The layer beside this one whose "weight" it computes with too, and that weight.
  virtual std::optional<size_t> tied_layer() const { return std::nullopt; }
  virtual void bind_tied(const Param&) {}

 protected:
  Layer() = default;
  // Returns its position, for param().
  size_t add_tensor(std::string key, Shape shape, Initial initial, bool trained = true);
  const Param& param(size_t index) const { return params_[index]; }
  const Param* find_param(size_t index) const { return index == kNone ? nullptr : &params_[index]; }
  static constexpr size_t kNone = ~size_t{0};

 private:
  friend class LayerTable;
  std::string type_;
  std::string args_ = "{}";
  bool netcl_saves_ = false;
  std::vector<LayerTensor> tensors_;
  std::vector<Param> params_;
};

using LayerPtr = std::unique_ptr<Layer>;

}  // namespace ballast::nn
