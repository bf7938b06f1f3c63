// What layers with linear maps and norms inside are written in.
#pragma once

#include <optional>
#include <string>

#include "ballast/nn/layer.h"

namespace ballast::nn {

// Draws as netcl's layers begin: see docs/training.md.
Initial linear_weight_initial(uint64_t in, uint64_t out);
Initial linear_bias_initial(uint64_t out);
Initial conv_initial(uint64_t fan_in);

// x of any rank as rows of its last dimension, and back.
Tensor as_rows(const Tensor& x);
Tensor with_last(const Tensor& rows, const Dims& like);

class PartsLayer : public Layer {
 protected:
  struct LinearPart {
    size_t weight = kNone, bias = kNone;
    uint64_t in = 0, out = 0;
  };
  struct NormPart {
    size_t gamma = kNone, beta = kNone;  // without beta: RMS
    float eps = 0;
  };
  // `name`: "attn.qkv", or empty where the layer is nothing but this.
  LinearPart add_linear(const std::string& name, uint64_t in, uint64_t out, bool bias);
  NormPart add_layer_norm(const std::string& name, uint64_t features, double eps);
  NormPart add_rms_norm(const std::string& name, uint64_t features, double eps);

  // Of any rank, over the last dimension.
  Result<Tensor> run_linear(Pass& pass, const LinearPart& part, const Tensor& x,
                            Activation activation = Activation::kNone, const Tensor* residual = nullptr) const;
  Result<Tensor> run_norm(Pass& pass, const NormPart& part, const Tensor& x) const;
};

// Dropout while training; nothing for p = 0.
Result<Tensor> run_dropout(Pass& pass, const Tensor& x, float p, std::optional<uint64_t> seed = std::nullopt);

// kInvalidArgument names what is wrong with the input of a layer.
Error wrong_input(const Layer& layer, const Tensor& x, std::string_view needed);

}  // namespace ballast::nn
