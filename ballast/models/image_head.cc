#include "ballast/models/image_head.h"

#include <fmt/format.h>

#include <array>

#include "ballast/base/json.h"
#include "ballast/models/kind_config.h"

namespace ballast {

Result<ConvLayer> load_conv(ParamLoader& params, const std::string& name, uint64_t out, uint64_t in, uint64_t kernel) {
  ConvLayer layer;
  BALLAST_TRY(layer.weight, params.get(name + ".weight", {out, in, kernel, kernel}));
  BALLAST_TRY(layer.bias, params.get(name + ".bias", {out}));
  return layer;
}

Result<ClassifierHead> load_classifier(ParamLoader& params, const std::string& name, uint64_t features) {
  ClassifierHead head;
  BALLAST_TRY(head.bias, params.get_rank(name + ".bias", 1));
  head.classes = head.bias.shape()[0];
  BALLAST_TRY(head.weight, params.get_rank(name + ".weight", 2));
  const Shape& shape = head.weight.shape();
  if (shape == Shape{head.classes, features}) return head;
  if (!(shape == Shape{features, head.classes})) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("parameter \"{}.weight\" has shape {}; with {} classes (the length of its bias) it must "
                    "be [{}, {}] or [{}, {}]",
                    name, shape.to_string(), head.classes, head.classes, features, features, head.classes));
  }
  head.layout = WeightLayout::kInOut;
  return head;
}

Result<Tensor> classify_features(Context& context, const Tensor& x, const ClassifierHead& head) {
  BALLAST_TRY(const Tensor pooled, ops::global_mean_pool_nhwc(context.at("avgpool"), x));
  return ops::linear(context.at("logits"), pooled, head.weight, {.bias = &head.bias, .layout = head.layout});
}

Result<Tensor> to_nhwc(Context& context, const Tensor& pixels, std::string_view kind) {
  const Dims& dims = pixels.dims();
  if (dims.rank() != 4 || dims[1] != 3 || pixels.count() == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a {} model takes images [n, 3, height, width], not {}", kind, dims.to_string()));
  }
  constexpr std::array<size_t, 4> kToNhwc = {0, 2, 3, 1};
  return ops::transpose(context.at("input.nhwc"), pixels, kToNhwc);
}

Result<std::vector<std::string>> parse_labels(std::string_view kind, std::string_view config, uint64_t classes) {
  std::vector<std::string> labels;
  BALLAST_TRY(const JsonObject fields, parse_kind_config(kind, config));
  if (!fields.has("labels")) return labels;
  JsonReader reader(*fields.find("labels"), fmt::format("labels of the {} model", kind));
  BALLAST_CHECK(reader.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_element());
    if (!more) break;
    BALLAST_TRY(std::string label, reader.read_string());
    labels.push_back(std::move(label));
  }
  if (labels.size() == classes) return labels;
  return fields.error("labels", fmt::format("names {} classes, the model has {}", labels.size(), classes));
}

}  // namespace ballast
