// The kinds of models there are.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

struct KindConfig;  // models/kind_config.h
class Model;        // models/model.h, as the next
class ParamLoader;

// A row of the table of models. A new one is a file and a row; an outside program adds its own to LoadOptions.
struct ModelKind {
  std::string_view name;
  std::string_view summary;
  Result<std::unique_ptr<Model>> (*build)(const KindConfig& config, ParamLoader& params);
};
std::span<const ModelKind> all_model_kinds();

}  // namespace ballast
