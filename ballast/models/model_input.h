// What models take: tokens, pictures, values; and how a picture becomes what an image model takes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/device/tensor.h"

namespace ballast {

struct TokenInput {
  std::vector<TokenId> ids;
};
struct ImageInput {
  Tensor pixels;  // NCHW, normalised as the model expects
};
// Of any shape: what models that are neither for text nor for images take.
struct ValuesInput {
  Tensor values;
};
using ModelInput = std::variant<TokenInput, ImageInput, ValuesInput>;
// Logits: [t, vocabulary] of tokens, [n, classes] of images; of models that embed texts, the last states [t, width].
// In the workspace of the model that made them.
using ModelOutput = Tensor;

// ---------------------------------------------------------------- pictures

// Rows of red, green and blue bytes.
struct Picture {
  uint64_t width = 0;
  uint64_t height = 0;
  std::vector<uint8_t> pixels;
};
// Decodes a picture. The library has no decoders: the program brings one.
using PictureReader = std::function<Result<Picture>(const std::string& path)>;

// As the models of torchvision expect it: the shorter side scaled to size * 256 / 224, the middle size x size cut out,
// to [0, 1], less the mean and divided by the deviation of ImageNet. Scaling down averages over what falls together.
struct ImageRecipe {
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
  uint64_t channels = 3;  // 1: shades of grey, as bright as the colours are to the eye
  bool cut = true;        // false: the shorter side becomes `size`
  // As a folder of pictures is read for training: whole shades as picture_to_planes() gives them, divided by this. The
  // rest does not count then.
  std::optional<float> divide_by = std::nullopt;
};

// [1, channels, size, size]
Result<Tensor> prepare_image(Workspace& workspace, const Picture& picture, uint64_t size,
                             const ImageRecipe& recipe = {});

// Scaled until it covers width x height, the middle cut out: `channels` planes (3: colours, 1: grey) of numbers from 0
// to 255. A picture of just that size stays as it is.
Status picture_to_planes(const Picture& picture, uint64_t channels, uint64_t height, uint64_t width,
                         std::span<float> out);

}  // namespace ballast
