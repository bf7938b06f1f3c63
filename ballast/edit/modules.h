// Which kind of module a tensor belongs to, as far as names and shapes tell: weight files hold no module types.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

enum class ModuleKind : uint8_t {
  kLinear,
  kEmbedding,
  kConv,  // of any rank, transposed and deformable ones too: names do not tell them apart
  kBatchNorm,
  kLayerNorm,
  kGroupNorm,
  kInstanceNorm,
  kRmsNorm,
  kPRelu,
  kOther,
};

// "Linear", "BatchNorm", ...
std::string_view module_kind_name(ModuleKind kind);
// The kind that a name of PyTorch, Burn or netcl means: "Conv2d", "ConvTranspose1d", "rmsnorm", "other". Case and a
// trailing dimension do not matter.
std::optional<ModuleKind> parse_module_kind(std::string_view name);
// Every kind, in the order of the enumerators.
std::vector<std::string_view> module_kind_names();

constexpr bool is_norm(ModuleKind kind) { return kind >= ModuleKind::kBatchNorm && kind <= ModuleKind::kRmsNorm; }

// How a Linear weight lies in the file. With kUnknown a bias may match either side.
enum class LinearLayout : uint8_t { kUnknown, kOutIn /* PyTorch */, kInOut /* Burn, netcl */ };

// Regular expressions over tensor names that decide where names and shapes do not.
struct ModuleHints {
  std::vector<std::string> linear;
  std::vector<std::string> not_linear;
  std::vector<std::string> norm;
};

struct ModuleGuess {
  ModuleKind kind = ModuleKind::kOther;
  // What it could be as well; then `reason` says why that cannot be told.
  std::optional<ModuleKind> alternative = std::nullopt;
  std::string_view reason = {};
};

// A tensor name is a module's path and the parameter's own name, joined by '.' or netcl's ':'.
struct SplitName {
  std::string_view module;  // with the separator; empty for a name without one
  std::string_view leaf;
};
SplitName split_name(std::string_view name);

// One guess per tensor; all tensors of a module get the same. A netcl config in the description names the layers of
// tensors called "<layer>:<key>" or "<layer>.<key>", and no guess is needed. Otherwise:
// - running statistics beside it: BatchNorm; `gamma`, or a vector `weight` under a name like norm, ln or bn: a norm;
// - a `weight` of rank 3 and more: a convolution;
// - a `weight` of rank 2 with a bias of its output length: Linear; without bias, the name decides (`q_proj`, `head`:
//   Linear; `embed_tokens`, `wte`: Embedding); where it does not, both are possible.
Result<std::vector<ModuleGuess>> classify_modules(const Description& description, LinearLayout layout,
                                                  const ModuleHints& hints = {});

}  // namespace ballast
