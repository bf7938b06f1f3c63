// Floating tensors into block types, and back.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/edit/cast.h"
#include "ballast/edit/importance.h"

namespace ballast {

// How far the values of a tensor are from what they were.
struct QuantizationError {
  uint64_t count = 0;
  double squared_error = 0;
  double squared_values = 0;
  double max_abs = 0;

  double rmse() const;
  double relative() const;  // rmse of the error over that of the values; 0 where all values are 0
  void merge(const QuantizationError& other);
};

struct TensorQuantization {
  std::string name;  // when it was asked for; later edits may rename it
  Shape shape;
  DType from;
  DType to;  // the same where it stays as it is
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
  std::string note;                        // why it stays as it is or gets another type than asked for; else empty
  bool is_calibrated = false;              // its error was weighed by an importance matrix
  std::optional<QuantizationError> error;  // absent until it was drawn, and where nothing was quantised
};

// What quantising did, filled while the plan is written. May be read from any thread.
class QuantizationLog {
 public:
  std::vector<TensorQuantization> tensors() const;  // in the order of the plan

  size_t add(TensorQuantization tensor);
  void set(size_t tensor, const QuantizationError& error);

 private:
  mutable std::mutex mutex_;
  std::vector<TensorQuantization> tensors_;
};

// Tensors whose name `pattern` finds get `type`, a floating or block type, or stay as they are.
struct TypeRule {
  std::string pattern;
  std::optional<DType> type;
};
// "REGEX=TYPE", split at the last =; types in any case; the type "same" leaves tensors as they are.
Result<TypeRule> parse_type_rule(const std::string& text);

// A mixture of types, under the name that llama.cpp gives it.
struct QuantizationPreset {
  std::string_view name;  // in lower case
  DType base;             // of matrices that no rule of the mixture picks out
  uint32_t file_type;     // general.file_type of GGUF
  std::string_view summary;
};
std::span<const QuantizationPreset> all_quantization_presets();
// In any case; q3_k, q4_k and q5_k are the medium mixtures, as in llama.cpp. kInvalidArgument names the nearest and
// all.
Result<const QuantizationPreset*> find_quantization_preset(std::string_view name);

// A type that tensors can be cast or quantised to, in any case; nullopt where there is none of that name.
std::optional<DType> find_quantization_type(std::string_view name);

struct QuantizeOptions {
  DType type = DType::kQ8_0;                   // of every matrix: one that can_quantize, or a floating type
  const QuantizationPreset* preset = nullptr;  // chooses a type for each matrix instead
  std::vector<TypeRule> rules = {};            // the first that finds the name decides, before the preset
  unsigned threads = 0;
  std::shared_ptr<const ImportanceMatrix> importance = {};  // whose errors count more; null: all alike
};

// For ConvertOptions::edits: matrices (two axes or more) of floating types get the type asked for, a piece at a time.
// Models with GGUF's metadata get their general.file_type. Norms, position embeddings, routers and what has rows of no
// whole number of blocks stay as they are; of types with blocks of 256 a simpler one stands in where only 32 divide the
// row. Values that are not finite, or too large for the scales of the type, are kInvalidArgument when they are drawn:
// with the tensor and the element.
PlanEdit quantize_tensors(QuantizeOptions options, std::shared_ptr<QuantizationLog> log);

// The type that each tensor of the model would get, without linking what quantises.
Result<std::vector<DType>> plan_quantized_types(const QuantizeOptions& options, const Description& model);

// For ConvertOptions::edits: tensors of block types get the floating type `to`. kUnsupported, with its name, where the
// values of one cannot be computed.
PlanEdit dequantize_tensors(DType to, std::shared_ptr<CastLog> log = {});

}  // namespace ballast
