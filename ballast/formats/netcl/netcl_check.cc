// What `verify` says about a netcl model beyond the structure of its file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "ballast/base/json.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast {

namespace {

struct LayerSpec {
  std::string_view type;
  std::array<std::string_view, 3> required;
  std::array<std::string_view, 5> optional;
  bool refuses_others;  // an argument it does not know is an error in netcl
};
constexpr std::array kLayerSpecs = {
    LayerSpec{"Conv2d",
              {"in_channels", "out_channels", "kernel_size"},
              {"stride", "pad", "bias", "dilation", "groups"},
              true},
    LayerSpec{"Linear", {"in_features", "out_features"}, {"bias"}, true},
    LayerSpec{"BatchNorm2d", {"num_features"}, {"momentum", "eps"}, true},
    LayerSpec{"ReLU", {}, {}, false},
    LayerSpec{"LeakyReLU", {}, {}, false},
    LayerSpec{"Sigmoid", {}, {}, false},
    LayerSpec{"Tanh", {}, {}, false},
    LayerSpec{"Dropout", {}, {}, false},
    LayerSpec{"MaxPool2d", {}, {}, false},
    LayerSpec{"Flatten", {}, {}, false},
};

std::optional<uint64_t> integer_arg(const NetclLayer& layer, std::string_view name) {
  const NetclArg* arg = layer.find_arg(name);
  if (arg == nullptr) return std::nullopt;
  const auto value = JsonReader(arg->value, "").read_u64();
  return value ? std::optional<uint64_t>(*value) : std::nullopt;
}

bool is_false(std::string_view raw) { return raw == "false" || raw == "0" || raw == "null"; }

// netcl lets axes of length 1 come and go.
bool shapes_match(const Shape& found, const std::vector<uint64_t>& expected) {
  const auto squeeze = [](std::span<const uint64_t> dims) {
    std::vector<uint64_t> kept;
    std::ranges::copy_if(dims, std::back_inserter(kept), [](uint64_t dim) { return dim != 1; });
    return kept;
  };
  return squeeze(found.dims()) == squeeze(expected);
}

class ModelChecker {
 public:
  ModelChecker(const std::string& where, std::span<const TensorInfo> tensors, Findings& findings)
      : where_(where), tensors_(tensors), findings_(findings), used_(tensors.size(), false) {
    for (size_t i = 0; i < tensors.size(); ++i) by_name_[tensors[i].name] = i;
  }

  Status check_layer(const NetclLayer& layer) {
    const auto spec = std::ranges::find(kLayerSpecs, layer.type, &LayerSpec::type);
    if (spec == kLayerSpecs.end()) {
      warn("layer_type", layer, "netcl knows this type only where a program has registered it");
      known_layers_only_ = false;
      return {};
    }
    check_args(layer, *spec);
    if (layer.type == "Conv2d") check_convolution(layer);
    else if (layer.type == "Linear") check_linear(layer);
    else if (layer.type == "BatchNorm2d") check_norm(layer);
    return {};
  }

  void check_rest() {
    if (!known_layers_only_) return;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (used_[i]) continue;
      findings_.note("extra_tensor", 0, tensors_[i].name, [&] {
        return fmt::format("{}: tensor \"{}\" belongs to no layer; netcl takes no notice of it", where_,
                           tensors_[i].name);
      });
    }
  }

 private:
  using Dims = std::optional<std::vector<uint64_t>>;  // absent: the arguments do not say

  static Dims dims_of(std::initializer_list<std::optional<uint64_t>> values) {
    std::vector<uint64_t> dims;
    for (const auto& value : values) {
      if (!value) return std::nullopt;
      dims.push_back(*value);
    }
    return dims;
  }

  void warn(const char* code, const NetclLayer& layer, std::string_view what) {
    findings_.warning(code, 0, "",
                      [&] { return fmt::format("{}: layer {} ({}): {}", where_, layer.index, layer.type, what); });
  }

  void check_args(const NetclLayer& layer, const LayerSpec& spec) {
    for (const std::string_view name : spec.required) {
      if (name.empty() || layer.find_arg(name) != nullptr) continue;
      warn("layer_args", layer, fmt::format("argument \"{}\" is missing, without which netcl refuses the file", name));
    }
    if (!spec.refuses_others) return;
    for (const NetclArg& arg : layer.args) {
      if (std::ranges::find(spec.required, arg.name) != spec.required.end() ||
          std::ranges::find(spec.optional, arg.name) != spec.optional.end()) {
        continue;
      }
      warn("layer_args", layer, fmt::format("argument \"{}\" is unknown to netcl 0.4.4, which refuses it", arg.name));
    }
  }

  void check_convolution(const NetclLayer& layer) {
    const auto in = integer_arg(layer, "in_channels");
    const auto out = integer_arg(layer, "out_channels");
    const auto kernel = integer_arg(layer, "kernel_size");
    const uint64_t groups = std::max<uint64_t>(1, integer_arg(layer, "groups").value_or(1));
    const auto in_per_group = in ? std::optional<uint64_t>(*in / groups) : std::nullopt;
    check_tensor(layer, "weight", dims_of({out, in_per_group, kernel, kernel}));
    check_bias(layer, dims_of({out}));
  }

  void check_linear(const NetclLayer& layer) {
    const auto in = integer_arg(layer, "in_features");
    const auto out = integer_arg(layer, "out_features");
    check_tensor(layer, "weight", dims_of({in, out}));
    check_bias(layer, dims_of({out}));
  }

  void check_norm(const NetclLayer& layer) {
    const auto features = integer_arg(layer, "num_features");
    for (const std::string_view key : {"gamma", "beta", "running_mean", "running_var"}) {
      check_tensor(layer, key, dims_of({features}));
    }
  }

  void check_bias(const NetclLayer& layer, const Dims& dims) {
    const NetclArg* arg = layer.find_arg("bias");
    const std::string name = fmt::format("{}:bias", layer.index);
    const bool present = by_name_.contains(name);
    if (arg != nullptr && is_false(arg->value)) {
      if (present) warn("unexpected_tensor", layer, "its arguments say that it has no bias, yet there is one");
      return;
    }
    if (arg == nullptr && !present && layer.type == "Conv2d") {
      warn("missing_bias", layer,
           "neither its arguments nor its tensors mention a bias, so it has none; netcl itself would make one up");
      return;
    }
    check_tensor(layer, "bias", dims);
  }

  void check_tensor(const NetclLayer& layer, std::string_view key, const Dims& dims) {
    const std::string name = fmt::format("{}:{}", layer.index, key);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      findings_.warning("missing_tensor", 0, name, [&] {
        return fmt::format("{}: layer {} ({}) has no tensor \"{}\"; netcl silently starts it from random numbers",
                           where_, layer.index, layer.type, name);
      });
      return;
    }
    used_[found->second] = true;
    const TensorInfo& tensor = tensors_[found->second];
    if (dims && !shapes_match(tensor.shape, *dims)) {
      findings_.warning("shape", 0, name, [&] {
        return fmt::format("{}: tensor \"{}\" has shape {}, but the arguments of layer {} ({}) need {}", where_, name,
                           tensor.shape.to_string(), layer.index, layer.type, Shape(*dims).to_string());
      });
    }
    if (tensor.dtype != DType::kF32) {
      findings_.note("dtype", 0, name, [&] {
        return fmt::format("{}: tensor \"{}\" is {}; netcl converts it to f32", where_, name, tensor.type_name());
      });
    }
  }

  const std::string& where_;
  std::span<const TensorInfo> tensors_;
  Findings& findings_;
  std::map<std::string_view, size_t> by_name_;
  std::vector<bool> used_;
  bool known_layers_only_ = true;
};

}  // namespace

Result<NetclModel> check_netcl_model(std::string_view text, const std::string& where,
                                     std::span<const TensorInfo> tensors, Findings& findings) {
  NetclModel model;
  if (findings.collects()) {
    ModelChecker checker(where, tensors, findings);
    BALLAST_TRY(model,
                parse_netcl_config(text, where, [&](const NetclLayer& layer) { return checker.check_layer(layer); }));
    checker.check_rest();
  } else {
    BALLAST_TRY(model, parse_netcl_config(text, where));
  }
  if (model.version != "1" && model.version != "2") {
    findings.warning("version", 0, "", [&] {
      return fmt::format("{}: version {} is unknown (1 and 2 are); netcl itself does not look at it", where,
                         model.version.empty() ? "(absent)" : model.version);
    });
  }
  return model;
}

}  // namespace ballast
