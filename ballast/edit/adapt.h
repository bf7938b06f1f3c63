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
#include "ballast/edit/modules.h"

namespace ballast {

// What happens to tensors of which neither name nor shape nor hint tells what they are.
enum class Ambiguous : uint8_t {
  kRefuse,  // an error that lists them
  kKeep,    // left as they are
  kLinear,  // matrices are taken for Linear weights, anything else is left as it is
};

// ---------------------------------------------------------------- Hugging Face

// For the adapters between gpt.rs and Hugging Face.
struct HuggingFaceOptions {
  // Text of a config.json, or of a GPTRSCHK config.
  std::optional<std::string> config_text;
  std::string config_name = "config.json";  // for errors
  // The text was asked for; otherwise it only stands in where the plan carries no config of gpt.rs itself.
  bool config_was_chosen = false;
  // To Hugging Face: a model that has no config.json over there is an error.
  bool config_wanted = false;
  // To gpt.rs: the config also says which GELU the model was made with, where that is not the one of gpt.rs. It ignores
  // that; Ballast's runtime obeys it.
  bool name_gelu = false;
};

// How many tensors one row of the table stood for.
struct MappedNames {
  std::string gptrs;
  std::string huggingface;  // several joined by ", "
  std::string change;       // "copied", "transposed", ...
  size_t tensors = 0;       // on the side of gpt.rs
};

struct HuggingFaceReport {
  std::string kind;                  // gpt.rs's name for it
  std::vector<MappedNames> mapped;   // rows that were used, in the order of the table
  std::vector<std::string> ignored;  // buffers without weights that were left out
  bool tied = false;                 // the output matrix is the transposed embedding, and over there not stored
  std::string config_text;           // to Hugging Face: config.json, "" where there is none; back: the GPTRSCHK config
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
