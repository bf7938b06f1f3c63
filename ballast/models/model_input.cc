#include "ballast/models/model_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast {

namespace {

// Which pixels of a line make up one pixel of the scaled line, and how much each counts.
struct Mixture {
  uint64_t first = 0;
  std::vector<float> weights;
};

// A triangle around each new pixel's centre, as wide as two old pixels, or two new ones where those are larger.
std::vector<Mixture> mixtures(uint64_t from, uint64_t to, uint64_t begin, uint64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  std::vector<Mixture> all(count);
  for (uint64_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const double low = std::max(0.0, std::floor(centre - reach + 0.5));
    const double high = std::min(static_cast<double>(from), std::floor(centre + reach + 0.5));
    Mixture& mixture = all[i];
    mixture.first = static_cast<uint64_t>(low);
    double sum = 0;
    for (double at = low; at < high; ++at) {
      const double weight = std::max(0.0, 1 - std::abs((at + 0.5 - centre) / reach));
      mixture.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : mixture.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

// The middle `width` x `height` of the picture scaled to wide x high: rows of red, green and blue, 0 to 255.
std::vector<float> scale_and_cut(const Picture& picture, uint64_t wide, uint64_t high, uint64_t width,
                                 uint64_t height) {
  const auto columns = mixtures(picture.width, wide, (wide - width) / 2, width);
  const auto rows = mixtures(picture.height, high, (high - height) / 2, height);

  // First across, for the lines that are needed; then down.
  std::vector<float> narrow(picture.height * width * 3);
  for (uint64_t y = 0; y < picture.height; ++y) {
    const uint8_t* line = picture.pixels.data() + y * picture.width * 3;
    for (uint64_t x = 0; x < width * 3; ++x) {
      const Mixture& mixture = columns[x / 3];
      float sum = 0;
      for (size_t k = 0; k < mixture.weights.size(); ++k)
        sum += mixture.weights[k] * line[(mixture.first + k) * 3 + x % 3];
      narrow[y * width * 3 + x] = sum;
    }
  }
  std::vector<float> cut(height * width * 3);
  for (uint64_t y = 0; y < height; ++y) {
    for (uint64_t x = 0; x < width * 3; ++x) {
      float sum = 0;
      for (size_t k = 0; k < rows[y].weights.size(); ++k)
        sum += rows[y].weights[k] * narrow[(rows[y].first + k) * width * 3 + x];
      cut[y * width * 3 + x] = sum;
    }
  }
  return cut;
}

Status check_sizes(const Picture& picture, uint64_t width, uint64_t height) {
  if (picture.width != 0 && picture.height != 0 && width != 0 && height != 0) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("a picture of {} x {} cannot become {} x {}",
                                                             picture.width, picture.height, width, height));
}

float to_grey(const float* colours) {
  if (colours[0] == colours[1] && colours[1] == colours[2]) return colours[0];
  return 0.299F * colours[0] + 0.587F * colours[1] + 0.114F * colours[2];
}

}  // namespace

namespace {

Result<Tensor> prepare_as_trained(Workspace& workspace, const Picture& picture, uint64_t size,
                                  const ImageRecipe& recipe) {
  std::vector<float> planes(recipe.channels * size * size);
  BALLAST_CHECK(picture_to_planes(picture, recipe.channels, size, size, planes));
  for (float& value : planes) value = std::round(std::clamp(value, 0.0F, 255.0F)) / *recipe.divide_by;
  return workspace.from(planes, {1, recipe.channels, size, size});
}

}  // namespace

Result<Tensor> prepare_image(Workspace& workspace, const Picture& picture, uint64_t size, const ImageRecipe& recipe) {
  BALLAST_CHECK(check_sizes(picture, size, size));
  if (recipe.channels != 1 && recipe.channels != 3) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a picture has 1 or 3 channels, and the model takes {}", recipe.channels));
  }
  if (recipe.divide_by) return prepare_as_trained(workspace, picture, size, recipe);
  const uint64_t shorter = recipe.cut ? std::max<uint64_t>(size * 256 / 224, 1) : size;
  const uint64_t least = std::min(picture.width, picture.height);
  const uint64_t wide = std::max(size, picture.width * shorter / least);
  const uint64_t high = std::max(size, picture.height * shorter / least);
  const std::vector<float> cut = scale_and_cut(picture, wide, high, size, size);
  std::vector<float> planes(recipe.channels * size * size);
  for (uint64_t i = 0; i < size * size; ++i) {
    for (uint64_t channel = 0; channel < recipe.channels; ++channel) {
      const float value = recipe.channels == 1 ? to_grey(&cut[i * 3]) : cut[i * 3 + channel];
      planes[channel * size * size + i] = (value / 255 - recipe.mean[channel]) / recipe.deviation[channel];
    }
  }
  return workspace.from(planes, {1, recipe.channels, size, size});
}

Status picture_to_planes(const Picture& picture, uint64_t channels, uint64_t height, uint64_t width,
                         std::span<float> out) {
  BALLAST_CHECK(check_sizes(picture, width, height));
  if ((channels != 1 && channels != 3) || out.size() != channels * height * width) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a picture cannot become {} planes of {} x {} in room for {} numbers; planes are 1 "
                                  "(grey) or 3 (colours)",
                                  channels, width, height, out.size()));
  }
  const double cover = std::max(static_cast<double>(width) / static_cast<double>(picture.width),
                                static_cast<double>(height) / static_cast<double>(picture.height));
  const auto scaled = [&](uint64_t length, uint64_t least) {
    return std::max(least, static_cast<uint64_t>(std::llround(static_cast<double>(length) * cover)));
  };
  const std::vector<float> cut =
      scale_and_cut(picture, scaled(picture.width, width), scaled(picture.height, height), width, height);
  const uint64_t pixels = height * width;
  for (uint64_t i = 0; i < pixels; ++i) {
    if (channels == 1) out[i] = to_grey(cut.data() + i * 3);
    for (uint64_t channel = 0; channels == 3 && channel < 3; ++channel)
      out[channel * pixels + i] = cut[i * 3 + channel];
  }
  return {};
}

}  // namespace ballast
