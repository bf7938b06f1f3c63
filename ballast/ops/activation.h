// Arguments of the activations, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct ActivationArgs {
  const Tensor& x;

  Status check() const;
  std::string text() const;
};
struct ReluArgs : ActivationArgs {
  static constexpr std::string_view kFunctional = "relu";
  void record(Tape& tape, const Tensor& y) const;
};
struct Relu6Args : ActivationArgs {
  static constexpr std::string_view kFunctional = "relu6";
  void record(Tape& tape, const Tensor& y) const;
};
struct SiluArgs : ActivationArgs {
  static constexpr std::string_view kFunctional = "silu";
  void record(Tape& tape, const Tensor& y) const;
};
struct SoftmaxLastDimArgs : ActivationArgs {
  static constexpr std::string_view kFunctional = "softmax_last_dim";
  void record(Tape& tape, const Tensor& y) const;
};

struct GeluArgs {
  static constexpr std::string_view kFunctional = "gelu";
  const Tensor& x;
  Activation variant;  // kGeluErf or kGeluTanh

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct SwigluArgs {
  static constexpr std::string_view kFunctional = "swiglu";
  const Tensor& gate;
  const Tensor& up;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct PreluArgs {
  static constexpr std::string_view kFunctional = "prelu";
  const Tensor& x;
  const Param& slopes;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// The functional that computes an activation by itself; empty for kNone.
std::string_view functional_of(Activation activation);
// Calls it; kNone gives x.
Result<Tensor> activate(Context& context, Activation activation, const Tensor& x);

std::string_view to_text(Activation activation);

}  // namespace ballast::ops
