#include "bindings/python/module/open_model.h"

namespace ballast::python {

Result<std::shared_ptr<OpenModel>> OpenModel::open(const ModelSettings& settings) {
  std::shared_ptr<OpenModel> opened(new OpenModel(settings));
  BALLAST_TRY(std::shared_ptr<LoadedModel> model, load_model(opened->source_, settings.load));
  opened->model_ = std::move(model);
  return opened;
}

OpenModel::~OpenModel() = default;

Result<TextModel*> OpenModel::text_locked() {
  if (!text_) {
    TextModelOptions options;
    options.tokenizer = settings_.tokenizer;
    if (settings_.chat_template) options.chat_template = GivenChatTemplate{*settings_.chat_template, "chat_template"};
    BALLAST_TRY(text_, TextModel::of(model_, source_, options));
  }
  return &*text_;
}

Result<TextModel*> OpenModel::text() {
  const std::lock_guard lock(mutex_);
  return text_locked();
}

Result<SharedEngine*> OpenModel::engine() {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr) {
    BALLAST_TRY(const TextModel* text, text_locked());
    BALLAST_TRY(auto engine, text->start_engine(settings_.engine));
    engine_ = std::make_unique<SharedEngine>(std::move(engine));
  }
  return engine_.get();
}

Result<const ChatFormat*> OpenModel::chat() {
  const std::lock_guard lock(mutex_);
  if (!chat_) {
    BALLAST_TRY(const TextModel* text, text_locked());
    BALLAST_TRY(const Tokenizer* tokenizer, text->tokenizer());
    auto format = settings_.chat_template
                      ? ChatFormat::open(source_, *tokenizer, *settings_.chat_template, "chat_template")
                      : ChatFormat::open(source_, *tokenizer);
    if (!format) return std::move(format).error();
    chat_.emplace(std::move(*format));
  }
  return &*chat_;
}

Result<Embedder*> OpenModel::embedder() {
  const std::lock_guard lock(mutex_);
  if (!embedder_) {
    EmbedderOptions options;
    options.tokenizer = settings_.tokenizer;
    BALLAST_TRY(Embedder embedder, Embedder::of(model_, source_, options));
    embedder_.emplace(std::move(embedder));
  }
  return &*embedder_;
}

Result<ImageModel*> OpenModel::images() {
  const std::lock_guard lock(mutex_);
  if (!images_) {
    BALLAST_TRY(ImageModel images, ImageModel::of(model_));
    images_.emplace(std::move(images));
  }
  return &*images_;
}

void ModelHandle::reset() {
  if (model_ != nullptr && !model_->is_here()) (void)new std::shared_ptr<OpenModel>(std::move(model_));
  model_.reset();
}

}  // namespace ballast::python
