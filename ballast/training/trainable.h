// What the training loop trains: parameters in memory, and a loss.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/exchange/exchange.h"
#include "ballast/formats/description.h"
#include "ballast/ops/ops.h"
#include "ballast/params/trained_params.h"
#include "ballast/training/dataset.h"

namespace ballast {

class Trainable {
 public:
  virtual ~Trainable() = default;

  // Everything that the model is: what an optimizer changes, and buffers.
  virtual TrainedParams& params() = 0;
  virtual ParamStore& store() = 0;
  // What an optimizer changes, in the order of the model.
  virtual std::vector<Param> trained() const = 0;

  // kInvalidArgument where batches of this layout are nothing for the model, and why.
  virtual Status check_layout(const ExampleLayout& layout) const = 0;
  enum class Mode : uint8_t { kTraining, kEvaluation };
  struct Loss {
    Tensor value;          // [1], mean over the items
    uint64_t items = 0;    // that the loss is a mean of: tokens, images, rows
    uint64_t correct = 0;  // of them, where the most likely class was right; only in evaluation, and with classes
    bool has_classes = false;
  };
  virtual Result<Loss> loss(Context& context, const Batch& batch, Mode mode) = 0;

  // "tokens" or "images" or "rows": what `items` counts.
  virtual std::string_view item_name() const = 0;
  // What a checkpoint's weight file carries, so that it runs by itself; absent where the format has no such field.
  virtual std::optional<ModelConfig> model_config() const = 0;
  // kInvalidArgument where a checkpoint's weights cannot be this model in that format ("netcl"), and why.
  virtual Status check_weights_format(std::string_view format) const = 0;
  // kInvalidArgument where save() has no format for this path, with those it has. Asked before training.
  virtual Status check_output(const std::string& path) const = 0;
  // The model as one file that load_model takes, with these files beside it; the format follows from the suffix,
  // folders above are created, what is there is replaced. All or nothing.
  virtual Status save(const std::string& path, std::span<const CompanionFile> companions, bool overwrite) const = 0;
};

}  // namespace ballast
