#include "ballast/runtime/embedder.h"

#include <fmt/format.h>

#include <cmath>

#include "ballast/device/host_values.h"
#include "ballast/io/guard.h"
#include "ballast/models/model.h"
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

// Tokens of one pass: more do not make it faster, and activations take memory.
constexpr size_t kPassTokens = 2048;
constexpr size_t kLongText = size_t{64} << 10U;  // bytes

Error in_text(Error error, size_t index, size_t count) {
  return count == 1 ? error : std::move(error).with_context(fmt::format("text {}", index + 1));
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
    const std::string one(text);
    BALLAST_TRY(std::vector<Embedding> embeddings, embed(std::span(&one, 1)));
    return std::move(embeddings.front());
  });
}

Result<std::vector<Embedding>> Embedder::embed(std::span<const std::string> texts, const Progress& progress) const {
  return guarded([&]() -> Result<std::vector<Embedding>> {
    uint64_t total = 0;
    for (const std::string& text : texts) total += text.size();
    uint64_t done = 0;
    std::vector<Embedding> embeddings;
    std::vector<Encoding> encodings;
    size_t tokens = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      // What somebody wrote is text, even where it looks like a mark.
      auto encoding = tokenizer_.encode_full(texts[i], {.special_tokens = false});
      if (!encoding) return in_text(std::move(encoding).error(), i, texts.size());
      // Reading it may take longer than a pass, and all but its beginning is cut.
      if (texts[i].size() > kLongText) BALLAST_CHECK(report_progress(progress, {"embedding", done, total}));
      const size_t cut = cut_to(*encoding, max_length());
      const size_t length = encoding->ids.size();
      if (!encodings.empty() && tokens + length > kPassTokens) {
        BALLAST_CHECK(embed_pass(encodings, embeddings));
        BALLAST_CHECK(report_progress(progress, {"embedding", done, total}));
        encodings.clear();
        tokens = 0;
      }
      embeddings.push_back({{}, length, cut});
      encodings.push_back(*std::move(encoding));
      tokens += length;
      done += texts[i].size();
    }
    BALLAST_CHECK(embed_pass(encodings, embeddings));
    return embeddings;
  });
}

// Fills in the vectors of the last of the embeddings.
Status Embedder::embed_pass(std::span<const Encoding> encodings, std::span<Embedding> embeddings) const {
  if (encodings.empty()) return {};
  std::vector<EmbedderText> texts;
  for (const Encoding& encoding : encodings) texts.push_back({encoding.ids, encoding.type_ids});
  const std::lock_guard turn(model_->running());
  BALLAST_TRY(const Tensor vectors, model_->as_text_embedder()->embed(model_->context(), texts));
  BALLAST_TRY(const auto values, HostValues<float>::of(vectors));
  const auto width = static_cast<size_t>(this->width());
  auto from = values.begin();
  for (Embedding& embedding : embeddings.last(encodings.size())) {
    embedding.vector.assign(from, from + width);
    from += width;
  }
  return {};
}

double cosine_similarity(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  return lengths == 0 ? 0 : dot(a, b) / lengths;
}

}  // namespace ballast
