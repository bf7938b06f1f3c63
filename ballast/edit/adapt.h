// Adapters: the same weights as another framework lays them out and names them.
//
// An adapter changes a WritePlan; payloads are transposed when they are drawn, not before. A new one is a function and
// a row of the table in adapt.cc: see docs/extending.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/convert.h"
#include "ballast/edit/huggingface.h"
#include "ballast/edit/modules.h"

namespace ballast {

// What happens to tensors of which neither name nor shape nor hint tells what they are.
enum class Ambiguous : uint8_t {
  kRefuse,  // an error that lists them
  kKeep,    // left as they are
  kLinear,  // matrices are taken for Linear weights, anything else is left as it is
};

struct AdaptOptions {
  ModuleHints hints;
  Ambiguous ambiguous = Ambiguous::kRefuse;
  // A model config of netcl, for plans that carry none.
  std::optional<std::string> netcl_config;
  // For the adapters between gpt.rs and Hugging Face, and what they did.
  HuggingFaceOptions huggingface;
  std::shared_ptr<HuggingFaceReport> huggingface_report;
  // Asked about a matrix that could be a Linear weight or not, before `ambiguous` decides; nullopt: no idea.
  std::function<std::optional<bool>(const TensorInfo& tensor)> is_linear;
};

struct Adapter {
  std::string_view name;
  std::string_view summary;  // one line for people
  Status (*apply)(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes);
};

// In the order in which they are listed.
std::span<const Adapter> all_adapters();
const Adapter* find_adapter(std::string_view name);

// For ConvertOptions::edits.
PlanEdit adapt_with(const Adapter& adapter, AdaptOptions options = {});

}  // namespace ballast
