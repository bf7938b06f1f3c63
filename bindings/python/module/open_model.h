// A model as Python holds it: opened once, shared by everything that it has begun.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ballast/engine/shared_engine.h"
#include "ballast/runtime/embedder.h"
#include "ballast/runtime/image_model.h"
#include "ballast/runtime/text_model.h"
#include "ballast/text/chat_format.h"
#include "bindings/python/module/native_call.h"

namespace ballast::python {

namespace nb = nanobind;

// What a model is opened with; kept to open it again in the child of a fork().
struct ModelSettings {
  std::string path;
  std::string tokenizer;
  std::optional<std::string> chat_template;
  LoadOptions load;
  EngineOptions engine;
};

// The model and what was made of it so far. Any number of threads may use it; nothing here needs the GIL.
class OpenModel {
 public:
  static Result<std::shared_ptr<OpenModel>> open(const ModelSettings& settings);
  ~OpenModel();

  LoadedModel& model() { return *model_; }
  const ModelSettings& settings() const { return settings_; }
  // Made at the first call. kUnsupported where the model cannot do that, kNotFound where it lacks what that needs.
  Result<TextModel*> text();
  Result<SharedEngine*> engine();
  Result<const ChatFormat*> chat();
  Result<Embedder*> embedder();
  Result<ImageModel*> images();

  // Whatever is under way ends soon.
  void close() { is_closed_ = true; }
  bool is_closed() const { return is_closed_; }
  bool is_here() const { return birthplace_.is_here(); }

 private:
  explicit OpenModel(ModelSettings settings) : settings_(std::move(settings)), source_(settings_.path) {}
  Result<TextModel*> text_locked();

  ModelSettings settings_;
  ModelSource source_;
  Birthplace birthplace_;
  std::atomic<bool> is_closed_{false};
  std::shared_ptr<LoadedModel> model_;
  std::mutex mutex_;  // of all below, while they are made
  std::optional<TextModel> text_;
  std::optional<ChatFormat> chat_;
  std::optional<Embedder> embedder_;
  std::optional<ImageModel> images_;
  std::unique_ptr<SharedEngine> engine_;  // goes before the text model
};

// A shared OpenModel that is forgotten, not destroyed, in a process other than the one that opened it: its threads are
// not there, so waiting for them would never end.
class ModelHandle {
 public:
  ModelHandle() = default;
  explicit ModelHandle(std::shared_ptr<OpenModel> model) : model_(std::move(model)) {}
  ~ModelHandle() { reset(); }
  ModelHandle(ModelHandle&& other) noexcept = default;
  ModelHandle& operator=(ModelHandle&& other) noexcept {
    reset();
    model_ = std::move(other.model_);
    return *this;
  }
  ModelHandle(const ModelHandle&) = default;
  ModelHandle& operator=(const ModelHandle&) = delete;

  OpenModel* operator->() const { return model_.get(); }
  OpenModel& operator*() const { return *model_; }
  explicit operator bool() const { return model_ != nullptr; }
  void reset();

 private:
  std::shared_ptr<OpenModel> model_;
};

void bind_generation(nb::module_& module);
void bind_models(nb::module_& module);

}  // namespace ballast::python
