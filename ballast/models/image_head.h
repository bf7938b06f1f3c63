// What image models share: their doors, convolutions with their biases, and the classifier at the end.
#pragma once

#include "ballast/models/token_input.h"

namespace ballast {

struct ConvLayer {
  Param weight, bias;
};
// `<name>.weight` [out, in, kernel, kernel] and `<name>.bias` [out].
Result<ConvLayer> load_conv(ParamLoader& params, const std::string& name, uint64_t out, uint64_t in, uint64_t kernel);

// `<name>.weight` as Torch keeps it, [classes, features], or as gpt.rs computes with it, [features, classes].
struct ClassifierHead {
  Param weight, bias;
  WeightLayout layout = WeightLayout::kOutIn;
  uint64_t classes = 0;
};
// The number of classes comes from the bias. Where both layouts fit (a square matrix) it is Torch's, as in gpt.rs.
Result<ClassifierHead> load_classifier(ParamLoader& params, const std::string& name, uint64_t features);

// [n, h, w, c] to logits [n, classes].
Result<Tensor> classify_features(Context& context, const Tensor& x, const ClassifierHead& head);

// NCHW to NHWC, after checking that there are 3 channels and something to see.
Result<Tensor> to_nhwc(Context& context, const Tensor& pixels, std::string_view kind);

// Labels from the config's "labels" list; none where it has none.
Result<std::vector<std::string>> parse_labels(std::string_view kind, std::string_view config, uint64_t classes);

// 3 channels, 224 pixels a side; one head.
class PictureModel : public Model, public ImageClassifier {
 public:
  const ImageClassifier* as_image_classifier() const final { return this; }
  uint64_t channels() const final { return 3; }
  uint64_t image_size() const final { return 224; }
  uint64_t classes() const final { return head_.classes; }
  std::span<const std::string> labels() const final { return labels_; }
  Result<ModelOutput> forward(Context& context, const ModelInput& input) const final {
    BALLAST_TRY(const Tensor* pixels, image_of(input, kind()));
    return classify(context, *pixels);
  }

 protected:
  ClassifierHead head_;
  std::vector<std::string> labels_;
};

}  // namespace ballast
