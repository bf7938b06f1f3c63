// A model that tells what a picture shows, with everything that belongs to it, opened once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ballast/runtime/load_model.h"

namespace ballast {

struct ImageModelOptions {
  LoadOptions load{};
  uint64_t size = 0;  // of a side that pictures are brought to; 0: the model's own
};

struct ImageClass {
  uint32_t index = 0;
  std::string name;  // empty where the model's files do not say it
  float logit = 0;
  double probability = 0;
};

// Any number of threads may use it: what computes waits for its turn.
class ImageModel {
 public:
  // What load_model opens, as long as it takes pictures.
  static Result<ImageModel> open(const ModelSource& source, const ImageModelOptions& options = {});
  static Result<ImageModel> open(const std::string& path, const ImageModelOptions& options = {});
  // The same of a model that is loaded; options.load does not count.
  static Result<ImageModel> of(std::shared_ptr<LoadedModel> model, const ImageModelOptions& options = {});

  LoadedModel& model() const { return *model_; }
  std::span<const std::string> class_names() const { return model_->class_names(); }
  uint64_t size() const { return size_; }
  uint64_t channels() const;

  // What the model is given of a picture: [1, channels, size, size], scaled and normalised as its files say.
  Result<ImageInput> prepare(const Picture& picture) const;
  // The likeliest classes, best first.
  Result<std::vector<ImageClass>> classify(const Picture& picture, size_t top = 5) const;

 private:
  ImageModel(std::shared_ptr<LoadedModel> model, uint64_t size) : model_(std::move(model)), size_(size) {}

  std::shared_ptr<LoadedModel> model_;
  uint64_t size_;
};

}  // namespace ballast
