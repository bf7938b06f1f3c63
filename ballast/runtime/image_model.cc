#include "ballast/runtime/image_model.h"

#include <algorithm>
#include <cmath>

#include "ballast/device/host_values.h"
#include "ballast/engine/sampler.h"
#include "ballast/io/guard.h"
#include "ballast/models/model.h"

namespace ballast {

Result<ImageModel> ImageModel::open(const std::string& path, const ImageModelOptions& options) {
  return guarded([&] { return open(ModelSource(path), options); });
}

Result<ImageModel> ImageModel::open(const ModelSource& source, const ImageModelOptions& options) {
  return guarded([&]() -> Result<ImageModel> {
    BALLAST_TRY(std::shared_ptr<LoadedModel> model, load_model(source, options.load));
    return of(std::move(model), options);
  });
}

Result<ImageModel> ImageModel::of(std::shared_ptr<LoadedModel> model, const ImageModelOptions& options) {
  return guarded([&]() -> Result<ImageModel> {
    const ImageClassifier* classifier = model->as_image_classifier();
    if (classifier == nullptr) return model->cannot("images");
    return ImageModel(std::move(model), options.size != 0 ? options.size : classifier->image_size());
  });
}

uint64_t ImageModel::channels() const { return model_->as_image_classifier()->channels(); }

Result<ImageInput> ImageModel::prepare(const Picture& picture) const {
  return guarded([&]() -> Result<ImageInput> {
    const std::lock_guard turn(model_->running());
    BALLAST_TRY(Tensor pixels,
                prepare_image(model_->workspace(), picture, size_, model_->as_image_classifier()->recipe()));
    return ImageInput{std::move(pixels)};
  });
}

Result<std::vector<ImageClass>> ImageModel::classify(const Picture& picture, size_t top) const {
  return guarded([&]() -> Result<std::vector<ImageClass>> {
    BALLAST_TRY(ImageInput input, prepare(picture));
    BALLAST_TRY(const Tensor output, model_->forward(std::move(input)));
    const std::lock_guard turn(model_->running());  // to read it, too: the queue is for one thread at a time
    BALLAST_TRY(const auto values, HostValues<float>::of(output));
    const auto logits = values.span().first(output.dims().back());
    const auto names = class_names();
    std::vector<ImageClass> classes;
    for (const SampledToken& best : Sampler::likeliest(logits, std::min(top, logits.size()))) {
      classes.push_back(
          {best.id, best.id < names.size() ? names[best.id] : "", logits[best.id], std::exp(best.log_probability)});
    }
    return classes;
  });
}

}  // namespace ballast
