// A model that turns texts into vectors, with everything that belongs to it, opened once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/runtime/load_model.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

struct EmbedderOptions {
  LoadOptions load{};
  std::string tokenizer{};  // another one than the model's own: what load_tokenizer takes
};

struct Embedding {
  std::vector<float> vector;  // pooled and normalised as the model's files say
  size_t tokens = 0;          // that it was made of, with those around the text
  size_t cut = 0;             // tokens of the text that the model had no room for
};

// Any number of threads may use it: what computes waits for its turn.
class Embedder {
 public:
  // What load_model opens, as long as it embeds texts and has a tokenizer.
  static Result<Embedder> open(const ModelSource& source, const EmbedderOptions& options = {});
  static Result<Embedder> open(const std::string& path, const EmbedderOptions& options = {});
  // The same of a model that was loaded from `source`; options.load does not count.
  static Result<Embedder> of(std::shared_ptr<LoadedModel> model, const ModelSource& source,
                             const EmbedderOptions& options = {});

  LoadedModel& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  uint64_t width() const;
  uint64_t max_length() const;  // in tokens, with those around the text

  // Texts that look like special tokens are plain text. One that is too long loses its end. Many at once are faster
  // than one by one, and give the same vectors; an error names the text by its number. Progress counts bytes of texts.
  Result<Embedding> embed(std::string_view text) const;
  Result<std::vector<Embedding>> embed(std::span<const std::string> texts, const Progress& progress = {}) const;

 private:
  Status embed_pass(std::span<const Encoding> encodings, std::span<Embedding> embeddings) const;
  Embedder(std::shared_ptr<LoadedModel> model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}

  std::shared_ptr<LoadedModel> model_;
  Tokenizer tokenizer_;
};

// The cosine of the angle between two vectors of one length; of one without a direction 0.
double cosine_similarity(std::span<const float> a, std::span<const float> b);

}  // namespace ballast
