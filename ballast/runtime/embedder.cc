#include "ballast/runtime/embedder.h"

#include <cmath>

#include "ballast/archive/guard.h"
#include "ballast/device/host_values.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast {

namespace {

// Takes tokens of the text itself away from its end; those around it stay. Tells how many.
size_t cut_to(Encoding& encoding, size_t most) {
  size_t cut = 0;
  for (size_t i = encoding.ids.size(); i > 0 && encoding.ids.size() > most; --i) {
    if (encoding.special[i - 1]) continue;
    const auto at = static_cast<std::ptrdiff_t>(i - 1);
    encoding.ids.erase(encoding.ids.begin() + at);
    encoding.type_ids.erase(encoding.type_ids.begin() + at);
    encoding.special.erase(encoding.special.begin() + at);
    ++cut;
  }
  return cut;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

Result<Embedder> Embedder::open(const std::string& path, const EmbedderOptions& options) {
  return guarded([&] { return open(ModelSource(path), options); });
}

Result<Embedder> Embedder::open(const ModelSource& source, const EmbedderOptions& options) {
  return guarded([&]() -> Result<Embedder> {
    BALLAST_TRY(std::shared_ptr<LoadedModel> model, load_model(source, options.load));
    return of(std::move(model), source, options);
  });
}

Result<Embedder> Embedder::of(std::shared_ptr<LoadedModel> model, const ModelSource& source,
                              const EmbedderOptions& options) {
  return guarded([&]() -> Result<Embedder> {
    if (model->as_text_embedder() == nullptr) return model->cannot("text embedding");
    BALLAST_TRY(Tokenizer tokenizer,
                options.tokenizer.empty() ? find_tokenizer(source) : load_tokenizer(options.tokenizer));
    return Embedder(std::move(model), std::move(tokenizer));
  });
}

uint64_t Embedder::width() const { return model_->as_text_embedder()->width(); }
uint64_t Embedder::max_length() const { return model_->as_text_embedder()->max_length(); }

Result<Embedding> Embedder::embed(std::string_view text) const {
  return guarded([&]() -> Result<Embedding> {
    // What somebody wrote is text, even where it looks like a mark.
    BALLAST_TRY(Encoding encoding, tokenizer_.encode_full(text, {.special_tokens = false}));
    Embedding embedding;
    embedding.cut = cut_to(encoding, max_length());
    embedding.tokens = encoding.ids.size();
    const std::lock_guard turn(model_->running());
    BALLAST_TRY(const Tensor vector,
                model_->as_text_embedder()->embed(model_->context(), encoding.ids, encoding.type_ids));
    BALLAST_TRY(embedding.vector, floats_of(vector));
    return embedding;
  });
}

double cosine_similarity(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  return lengths == 0 ? 0 : dot(a, b) / lengths;
}

}  // namespace ballast
