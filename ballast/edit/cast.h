// Floating tensors in another precision.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/convert.h"
#include "ballast/edit/adapt.h"
#include "ballast/edit/modules.h"
#include "ballast/tensor/cast.h"

namespace ballast {

struct TensorCast {
  std::string name;  // when the cast was asked for; later edits may rename it
  DType from;
  DType to;
  std::optional<CastReport> report;  // absent until the tensor was drawn
};

// What casts did, filled while the plan is written. May be read from any thread.
class CastLog {
 public:
  // In the order of the plan.
  std::vector<TensorCast> casts() const;
  CastReport total() const;

  size_t add(std::string name, DType from, DType to);
  void set(size_t cast, const CastReport& report);

 private:
  mutable std::mutex mutex_;
  std::vector<TensorCast> casts_;
};

// cast_tensor, with what it did in `log`, which may be null.
Status cast_logged(WritePlan& plan, size_t index, DType to, const std::shared_ptr<CastLog>& log);

struct FloatCastOptions {
  DType to = DType::kF32;
  std::vector<std::string> keep;  // regular expressions over names of tensors that stay as they are
};

// For ConvertOptions::edits: every f64, f32, flex32, f16 and bf16 tensor becomes `to`, itself one of these. Integers,
// truth values and quantised tensors (8-bit floats among them, whose scales stand elsewhere) are not touched.
PlanEdit cast_floats(FloatCastOptions options, std::shared_ptr<CastLog> log = {});
bool is_castable_float(DType dtype);

enum class HalfDirection : uint8_t {
  kBySource,  // f32 becomes f16, f16 becomes f32: what Burn's HalfPrecisionAdapter does
  kToHalf,    // f32 becomes f16
  kToFull,    // f16 becomes f32
};

struct HalfOptions {
  HalfDirection direction = HalfDirection::kBySource;
  // Besides, or without, the modules that Burn converts by default: every kind but BatchNorm and Other.
  std::vector<ModuleKind> with;
  std::vector<ModuleKind> without;
  std::vector<std::string> keep;  // as above
  ModuleHints hints;
  Ambiguous ambiguous = Ambiguous::kRefuse;  // only asked where the answer matters; kLinear takes a matrix for Linear
};

// For ConvertOptions::edits: half precision by kind of module.
PlanEdit cast_half(HalfOptions options, std::shared_ptr<CastLog> log = {});

}  // namespace ballast
