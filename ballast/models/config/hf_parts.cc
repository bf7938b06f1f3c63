#include "ballast/models/config/hf_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

namespace {

struct ActivationWord {
  std::string_view word;
  Activation activation;
};
// The words for GELU with tanh differ in how they are computed, not in what.
constexpr ActivationWord kActivationWords[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"relu", Activation::kRelu},
    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh},
};

Status refuse_quantised(const JsonObject& config) {
  constexpr std::string_view kField = "quantization_config";
  if (!config.has(kField)) return {};
  BALLAST_TRY(const JsonObject how, config.object(kField));
  BALLAST_TRY(const std::string method, how.text_or("quant_method", "no method"));
  return config.error(kField, fmt::format("says {}: weights that were quantised so are not read; a folder with f32, "
                                          "f16 or bf16 weights is, and so is a GGUF file",
                                          method));
}

}  // namespace

Result<Activation> hf_activation(const JsonObject& config, std::string_view field, std::string_view otherwise) {
  BALLAST_TRY(const std::string name, config.text_or(field, std::string(otherwise)));
  const auto found = std::ranges::find(kActivationWords, name, &ActivationWord::word);
  if (found != std::end(kActivationWords)) return found->activation;
  return config.error(field, fmt::format("is \"{}\": silu, gelu, gelu_new, gelu_pytorch_tanh or relu", name));
}

Status refuse_hf_switches(const JsonObject& config) {
  BALLAST_CHECK(refuse_quantised(config));
  if (!config.has("per_layer_config")) return {};
  return config.error("per_layer_config", "gives layers settings of their own: all of a model have the same here");
}

}  // namespace ballast
