#include "bindings/core/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/tensor/small_float.h"

namespace ballast::core {

namespace {

constexpr size_t kBlock = 32;  // elements of q8_0 that share a scale
constexpr size_t kBlockBytes = 34;

// ---------------------------------------------------------------- loops

void run_conv2d(const Step& step, const float* from, float* to) {
  const uint64_t channels = step.in.channels / step.groups, filters = step.out.channels / step.groups;
  const uint64_t height = step.in.height, width = step.in.width, kernel = step.kernel;
  const uint64_t area = step.out.height * step.out.width;
  std::array<float, kBlock> taps;
  for (uint64_t filter = 0; filter < step.out.channels; ++filter, to += area) {
    float bias = 0;
    if (step.bias.are_there()) step.bias.load(filter, 1, &bias);
    std::fill_n(to, area, bias);
    for (uint64_t channel = 0; channel < channels; ++channel) {
      const float* plane = from + (filter / filters * channels + channel) * height * width;
      for (uint64_t tap = 0; tap < kernel * kernel; ++tap) {
        const uint64_t first = (filter * channels + channel) * kernel * kernel;
        if (tap % kBlock == 0) {
          step.weight.load(first + tap, static_cast<size_t>(std::min<uint64_t>(kBlock, kernel * kernel - tap)),
                           taps.data());
        }
        const uint64_t down = tap / kernel * step.dilation, right = tap % kernel * step.dilation;
        for (uint64_t oy = 0; oy < step.out.height; ++oy) {
          const uint64_t y = oy * step.stride + down - step.pad;  // above the image: wraps, is too large
          if (y >= height) continue;
          for (uint64_t ox = 0; ox < step.out.width; ++ox) {
            const uint64_t x = ox * step.stride + right - step.pad;
            if (x < width) to[oy * step.out.width + ox] += plane[y * width + x] * taps[tap % kBlock];
          }
        }
      }
    }
  }
}

// The weight is [in, out].
void run_linear(const Step& step, const float* from, float* to) {
  const uint64_t in = step.in.count(), out = step.out.count();
  if (step.bias.are_there()) step.bias.load(0, static_cast<size_t>(out), to);
  else std::fill_n(to, out, 0.0F);
  std::array<float, kBlock> row;
  for (uint64_t i = 0; i < in; ++i) {
    if (from[i] == 0) continue;  // half of what a ReLU gives
    for (uint64_t o = 0; o < out; o += kBlock) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kBlock, out - o));
      step.weight.load(i * out + o, count, row.data());
      for (size_t j = 0; j < count; ++j) to[o + j] += from[i] * row[j];
    }
  }
}

void run_relu(const Step& step, const float* from, float* to) {
  for (uint64_t i = 0; i < step.in.count(); ++i) to[i] = from[i] < 0 ? from[i] * step.slope : from[i];
}

// start, and what to do with each element of a window and with the result.
template <typename Take, typename Finish>
void pool(const Step& step, const float* from, float* to, float start, const Take& take, const Finish& finish) {
  for (uint64_t channel = 0; channel < step.out.channels; ++channel) {
    const float* plane = from + channel * step.in.height * step.in.width;
    for (uint64_t oy = 0; oy < step.out.height; ++oy) {
      for (uint64_t ox = 0; ox < step.out.width; ++ox) {
        float value = start;
        for (uint64_t y = oy * step.stride; y < oy * step.stride + step.kernel; ++y) {
          for (uint64_t x = ox * step.stride; x < ox * step.stride + step.kernel; ++x) {
            value = take(value, plane[y * step.in.width + x]);
          }
        }
        *to++ = finish(value);
      }
    }
  }
}

void run_max_pool(const Step& step, const float* from, float* to) {
  // NaN stays, as in the library.
  pool(
      step, from, to, -std::numeric_limits<float>::infinity(),
      [](float most, float value) { return value > most || value != value ? value : most; },
      [](float most) { return most; });
}

void run_avg_pool(const Step& step, const float* from, float* to) {
  const auto count = static_cast<float>(step.kernel * step.kernel);
  pool(
      step, from, to, 0, [](float sum, float value) { return sum + value; }, [&](float sum) { return sum / count; });
}

void run_global_mean(const Step& step, const float* from, float* to) {
  const uint64_t area = step.in.height * step.in.width;
  for (uint64_t channel = 0; channel < step.in.channels; ++channel, from += area) {
    float sum = 0;
    for (uint64_t i = 0; i < area; ++i) sum += from[i];
    to[channel] = sum / static_cast<float>(area);
  }
}

// ---------------------------------------------------------------- plans

Status check_image(const LayerSource& layer, const Form& in, uint64_t channels) {
  if (in.is_image && in.channels == channels) return {};
  return layer.error(in.is_image ? fmt::format("takes images of {} channels, not of {}", channels, in.channels)
                                 : fmt::format("takes images of {} channels, not features", channels));
}

// How often a window of `reach` fits.
Result<uint64_t> places(const LayerSource& layer, uint64_t length, const Step& step, uint64_t reach) {
  const auto padding = checked_mul(step.pad, 2);
  const auto padded = padding ? checked_add(length, *padding) : std::nullopt;
  if (step.stride == 0 || !padded || *padded < reach) {
    return layer.error(fmt::format("a window of {} (stride {}) does not fit images of {}x{} with a border of {}", reach,
                                   step.stride, step.in.height, step.in.width, step.pad));
  }
  return (*padded - reach) / step.stride + 1;
}

Status plan_conv2d(const LayerSource& layer, Step& step) {
  BALLAST_TRY(const uint64_t in, layer.count("in_channels"));
  BALLAST_TRY(const uint64_t out, layer.count("out_channels"));
  BALLAST_TRY(step.kernel, layer.count("kernel_size"));
  BALLAST_TRY(step.stride, layer.count("stride", 1));
  BALLAST_TRY(step.pad, layer.count("pad", 0));
  BALLAST_TRY(step.dilation, layer.count("dilation", 1));
  BALLAST_TRY(step.groups, layer.count("groups", 1));
  BALLAST_TRY(const bool bias, layer.truth("bias", true));
  BALLAST_CHECK(check_image(layer, step.in, in));
  if (step.groups == 0 || in % step.groups != 0 || out % step.groups != 0) {
    return layer.error(fmt::format("{} groups divide neither {} nor {} channels evenly", step.groups, in, out));
  }
  const auto apart = step.kernel == 0 ? std::nullopt : checked_mul(step.kernel - 1, step.dilation);
  if (!apart || *apart == UINT64_MAX) return layer.error("its window has no size");
  BALLAST_TRY(const uint64_t height, places(layer, step.in.height, step, *apart + 1));
  BALLAST_TRY(const uint64_t width, places(layer, step.in.width, step, *apart + 1));
  step.out = {out, height, width, true};
  BALLAST_TRY(step.weight, layer.weights("weight", {out, in / step.groups, step.kernel, step.kernel}));
  if (bias) BALLAST_CHECK(assign(step.bias, layer.weights("bias", {out})));
  step.run = run_conv2d;
  return {};
}

Status plan_linear(const LayerSource& layer, Step& step) {
  BALLAST_TRY(const uint64_t in, layer.count("in_features"));
  BALLAST_TRY(const uint64_t out, layer.count("out_features"));
  BALLAST_TRY(const bool bias, layer.truth("bias", true));
  if (step.in.is_image || step.in.count() != in) {
    return layer.error(
        fmt::format("takes {} features, not {}{}", in, step.in.is_image ? "an image of " : "", step.in.count()));
  }
  step.out = {out};
  BALLAST_TRY(step.weight, layer.weights("weight", {in, out}));
  if (bias) BALLAST_CHECK(assign(step.bias, layer.weights("bias", {out})));
  step.run = run_linear;
  return {};
}

Status plan_relu(const LayerSource&, Step& step) {
  step.run = run_relu;
  step.in_place = true;
  return {};
}

Status plan_leaky_relu(const LayerSource& layer, Step& step) {
  BALLAST_TRY(const double slope, layer.real("negative_slope", 0.01));
  step.slope = static_cast<float>(slope);
  return plan_relu(layer, step);
}

Status plan_flatten(const LayerSource&, Step& step) {
  step.out = {step.in.count()};
  return {};
}

Status plan_pool(const LayerSource& layer, Step& step) {
  BALLAST_CHECK(check_image(layer, step.in, step.in.channels));
  if (step.kernel == 0) return layer.error("its window has no size");
  BALLAST_TRY(const uint64_t height, places(layer, step.in.height, step, step.kernel));
  BALLAST_TRY(const uint64_t width, places(layer, step.in.width, step, step.kernel));
  step.out = {step.in.channels, height, width, true};
  return {};
}

Status plan_max_pool(const LayerSource& layer, Step& step) {
  BALLAST_TRY(step.kernel, layer.count("kernel_size", 2));
  BALLAST_TRY(step.stride, layer.count("stride", 2));
  step.run = run_max_pool;
  return plan_pool(layer, step);
}

Status plan_avg_pool(const LayerSource& layer, Step& step) {
  BALLAST_TRY(step.kernel, layer.count("kernel_size", 2));
  BALLAST_TRY(step.stride, layer.count("stride", step.kernel));
  step.run = run_avg_pool;
  return plan_pool(layer, step);
}

Status plan_global_mean(const LayerSource& layer, Step& step) {
  BALLAST_CHECK(check_image(layer, step.in, step.in.channels));
  step.out = {step.in.channels, 1, 1, true};
  step.run = run_global_mean;
  return {};
}

constexpr std::array kLayers = {
    LayerRow{"Conv2d", plan_conv2d},
    LayerRow{"Linear", plan_linear},
    LayerRow{"ReLU", plan_relu},
    LayerRow{"LeakyReLU", plan_leaky_relu},
    LayerRow{"MaxPool2d", plan_max_pool},
    LayerRow{"AvgPool2d", plan_avg_pool},
    LayerRow{"GlobalAvgPool2d", plan_global_mean},
    LayerRow{"Flatten", plan_flatten},
    LayerRow{"Identity", nullptr},
    LayerRow{"Dropout", nullptr},  // does something in training alone
};

}  // namespace

// ---------------------------------------------------------------- weights

bool Weights::knows(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kQ8_0;
}

void Weights::load(uint64_t first, size_t count, float* out) const {
  const std::byte* bytes = payload_.bytes().data();
  if (dtype_ == DType::kF32) {
    for (size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(load_le<uint32_t>(bytes + (first + i) * 4));
  } else if (dtype_ == DType::kF16) {
    for (size_t i = 0; i < count; ++i) out[i] = F16::decode(load_le<uint16_t>(bytes + (first + i) * 2));
  } else if (dtype_ == DType::kBF16) {
    for (size_t i = 0; i < count; ++i) out[i] = BF16::decode(load_le<uint16_t>(bytes + (first + i) * 2));
  } else {
    for (size_t i = 0; i < count; i += kBlock) {
      const std::byte* block = bytes + (first + i) / kBlock * kBlockBytes;
      const float scale = F16::decode(load_le<uint16_t>(block));
      for (size_t j = 0; j < kBlock; ++j) out[i + j] = scale * static_cast<float>(static_cast<int8_t>(block[2 + j]));
    }
  }
}

// ---------------------------------------------------------------- what a layer asks

Error LayerSource::error(std::string_view what, ErrorCode code) const {
  return make_error(code, fmt::format("layer {} ({}): {}", layer_.index, layer_.type, what));
}

Result<uint64_t> LayerSource::count(std::string_view arg, std::optional<uint64_t> otherwise) const {
  const NetclArg* found = layer_.find_arg(arg);
  if (found == nullptr || found->value == "null") {
    if (otherwise) return *otherwise;
    return error(fmt::format("\"{}\" is missing", arg));
  }
  JsonReader json(found->value, std::string(arg));
  auto value = json.read_u64();
  if (!value) return error(fmt::format("\"{}\" is {}, not a count", arg, found->value));
  return value;
}

Result<bool> LayerSource::truth(std::string_view arg, bool otherwise) const {
  const NetclArg* found = layer_.find_arg(arg);
  if (found == nullptr || found->value == "null") return otherwise;
  if (found->value == "true") return true;
  if (found->value == "false") return false;
  return error(fmt::format("\"{}\" is {}, not true or false", arg, found->value));
}

Result<double> LayerSource::real(std::string_view arg, double otherwise) const {
  const NetclArg* found = layer_.find_arg(arg);
  if (found == nullptr || found->value == "null") return otherwise;
  JsonReader json(found->value, std::string(arg));
  auto value = json.read_double();
  if (!value) return error(fmt::format("\"{}\" is {}, not a number", arg, found->value));
  return value;
}

Result<Weights> LayerSource::weights(std::string_view key, const Shape& shape) const {
  const std::string name = fmt::format("{}{}{}", layer_.index, separator_, key);
  const auto index = archive_.archive.find(name);
  if (!index) return error(fmt::format("the file has no tensor \"{}\"", name), ErrorCode::kNotFound);
  const TensorInfo& tensor = archive_.archive.tensors()[*index];
  if (!(tensor.shape == shape)) {
    return error(
        fmt::format("tensor \"{}\" is {}; the layer takes {}", name, tensor.shape.to_string(), shape.to_string()),
        ErrorCode::kCorrupt);
  }
  if (!Weights::knows(tensor.dtype) || (tensor.dtype == DType::kQ8_0 && key == "bias")) {
    return error(
        fmt::format("tensor \"{}\" is {}; here weights are f32, f16, bf16 or q8_0", name, dtype_name(tensor.dtype)),
        ErrorCode::kUnsupported);
  }
  if (const auto in_image = payload_in_image(archive_, *index)) return Weights(tensor.dtype, Payload(*in_image));
  ByteVector copy(static_cast<size_t>(tensor.byte_size));
  BALLAST_CHECK(read_payload(archive_, *index, copy));
  return Weights(tensor.dtype, Payload(std::move(copy)));
}

const LayerRow* find_layer(std::string_view type) {
  const auto found = std::ranges::find(kLayers, type, &LayerRow::type);
  return found == kLayers.end() ? nullptr : &*found;
}

std::string known_layers() {
  std::string names;
  for (const LayerRow& row : kLayers) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.type);
  return names;
}

}  // namespace ballast::core
