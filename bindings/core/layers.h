// What the layers of a model on a board compute: plain loops over f32, weights read where they lie.
//
// Those of ballast/backends need tensors in a device's memory, a workspace and threads; the table of ballast/nn brings
// forty layers and their gradients. A board wants a tenth of either, in a few kilobytes (docs/architecture.md).
#pragma once

#include <string_view>
#include <vector>

#include "ballast/formats/netcl/netcl.h"
#include "bindings/core/handle.h"

namespace ballast::core {

// What passes between layers: an image, channels first, or features.
struct Form {
  uint64_t channels = 0, height = 1, width = 1;
  bool is_image = false;

  uint64_t count() const { return channels * height * width; }
};

// A parameter of a layer, in the image where that can be addressed.
class Weights {
 public:
  static bool knows(DType dtype);
  Weights() : payload_(ByteSpan()) {}
  Weights(DType dtype, Payload payload) : dtype_(dtype), payload_(std::move(payload)) {}

  bool are_there() const { return !payload_.bytes().empty(); }
  // Elements [first, first + count), decoded; both are multiples of 32 where the type is q8_0.
  void load(uint64_t first, size_t count, float* out) const;

 private:
  DType dtype_ = DType::kF32;
  Payload payload_;
};

struct Step {
  // In place where `to` is `from`.
  void (*run)(const Step& step, const float* from, float* to) = nullptr;
  bool in_place = false;
  Form in, out;
  uint64_t kernel = 1, stride = 1, pad = 0, dilation = 1, groups = 1;
  float slope = 0;
  Weights weight, bias;
};

// What a layer asks of the file, and gives.
class LayerSource {
 public:
  LayerSource(const ballast_core& archive, const NetclLayer& layer, char separator)
      : archive_(archive), layer_(layer), separator_(separator) {}

  Result<uint64_t> count(std::string_view arg, std::optional<uint64_t> otherwise = std::nullopt) const;
  Result<bool> truth(std::string_view arg, bool otherwise) const;
  Result<double> real(std::string_view arg, double otherwise) const;
  Result<Weights> weights(std::string_view key, const Shape& shape) const;
  Error error(std::string_view what, ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  const ballast_core& archive_;
  const NetclLayer& layer_;
  char separator_;
};

struct LayerRow {
  std::string_view type;
  // From step.in to the rest of the step; `run` stays null where nothing is to be computed. Null: nothing but that.
  Status (*plan)(const LayerSource& layer, Step& step);
};
// Null where the type is not known here.
const LayerRow* find_layer(std::string_view type);
// "Conv2d, Linear, ..."
std::string known_layers();

}  // namespace ballast::core
