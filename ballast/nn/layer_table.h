// The types of layers there are: one row each. A program adds rows of its own to a table of its own; the built-in ones
// are always there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/nn/layer.h"
#include "ballast/nn/layer_args.h"

namespace ballast::nn {

class LayerTable;

struct LayerType {
  std::string_view name;
  std::vector<ArgSpec> args{};  // in the order in which they are written
  // `table`: for layers that have layers inside.
  Result<LayerPtr> (*build)(const LayerArgs& args, const LayerTable& table) = nullptr;
  bool netcl_saves = false;      // netcl's save_model and load_model know it
  bool ignores_unknown = false;  // arguments, as netcl does for some
};

class LayerTable {
 public:
  // The built-in rows.
  LayerTable();

  // kInvalidArgument where the name is taken: a built-in layer is never replaced.
  Status register_layer(LayerType type);
  const LayerType* find(std::string_view name) const;
  const std::vector<LayerType>& types() const { return types_; }

  // `args`: a JSON object, or null. `index` names the layer in errors.
  Result<LayerPtr> build(std::string_view type, std::string_view args, size_t index = 0) const;
  // A list of {"type", "args"}, as JSON.
  Result<std::vector<LayerPtr>> build_all(std::string_view list, const std::string& where) const;

 private:
  std::vector<LayerType> types_;
};

// [{"type": "Linear", "args": {...}}, ...] as netcl writes it.
std::string layer_list_json(std::span<const LayerPtr> layers);

}  // namespace ballast::nn
