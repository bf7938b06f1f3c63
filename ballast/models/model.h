// What a model is to the programs that run it: a kind, a forward pass, and capabilities.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ballast/base/token_id.h"
#include "ballast/models/model_input.h"
#include "ballast/models/model_kind.h"
#include "ballast/ops/ops.h"

namespace ballast {

namespace nn {
class Layer;  // nn/layer.h
}

// Which rows of a part's logits a pass computes.
enum class LogitRows : uint8_t { kAll, kLast, kNone };

// Some tokens of one text in a pass.
struct BatchPart {
  uint64_t rows = 0;         // tokens
  uint64_t position = 0;     // of the first
  uint64_t text_length = 0;  // of the whole text as far as it is known: scalings of positions depend on it
  LogitRows logits = LogitRows::kAll;
  const KvPast* past = nullptr;  // has pages for these positions too; null: the text begins here and is not kept
};

// What one pass computes: rows of many texts, which do not see each other. Whatever the company, a text's logits are
// those that it has alone.
struct TextBatch {
  std::span<const TokenId> ids;      // of all parts, one after the other
  std::span<const BatchPart> parts;  // at least one; with a past all of them, or none: then of one length
};

// What a text model shows of its inside, for programs that explain what it does: models/text_inspection.h.
class LayerViews {
 public:
  virtual ~LayerViews() = default;
  virtual uint64_t layers() const = 0;
  virtual uint64_t heads() const = 0;  // of queries, in each layer
  // What the model would say if it ended behind a layer that left the states [t, width]: logits [t, v].
  virtual Result<Tensor> predict_from(Context& context, const Tensor& states) const = 0;
  // How a layer looks at the packed queries, keys and values of one text without a past.
  virtual ops::AttentionConfig attention_of(uint64_t layer) const = 0;
};

// Predicts the next token.
class CausalLm {
 public:
  virtual ~CausalLm() = default;
  virtual uint64_t context_length() const = 0;
  virtual uint64_t vocab_size() const = 0;
  virtual KvShape kv_shape() const = 0;

  // Logits [wanted rows, v], in the order of the parts. No ids, ids outside the vocabulary, positions beyond the
  // context and parts that contradict each other are kInvalidArgument with the numbers. Keys and values are in the
  // pages afterwards; an error leaves everything before `position` as it was.
  virtual Result<Tensor> forward_batch(Context& context, const TextBatch& batch) const = 0;
  // What the past of a text depends on besides its tokens: a text that reaches another kind is computed anew. Most
  // models have one kind.
  virtual uint64_t past_kind(uint64_t /*text_length*/) const { return 0; }
  // Texts whose lengths are of one kind compute the same rows alike; never less for a longer one. Finer than
  // past_kind() where positions follow the length of the text and a text that grows keeps its past all the same.
  virtual uint64_t length_kind(uint64_t text_length) const { return past_kind(text_length); }

  // Null for a model whose layers cannot be looked at.
  virtual const LayerViews* layer_views() const { return nullptr; }

  // One text without a past: [t, v], or [1, v] of the last position.
  Result<Tensor> forward_tokens(Context& context, std::span<const TokenId> ids, LogitRows rows) const;
  // Several texts of equal length, one after the other in `ids`: what training does. All logits, in the order of `ids`.
  Result<Tensor> forward_sequences(Context& context, std::span<const TokenId> ids, uint64_t sequences) const;
};

class ImageClassifier {
 public:
  virtual ~ImageClassifier() = default;
  virtual uint64_t channels() const = 0;
  virtual uint64_t image_size() const = 0;  // of a side, as trained; others may work
  virtual uint64_t classes() const = 0;
  virtual std::span<const std::string> labels() const { return {}; }
  // How a picture becomes pixels.
  virtual ImageRecipe recipe() const { return {}; }
  virtual Result<Tensor> classify(Context& context, const Tensor& pixels) const = 0;  // [n, classes]
};

// A text to be embedded. `type_ids`: which text of a pair each token belongs to; none: all to the first.
struct EmbedderText {
  std::span<const TokenId> ids;
  std::span<const uint32_t> type_ids{};
};

// A list of layers, each of which works on what the one before it left.
class LayeredModel {
 public:
  // Is shown what each layer gives, images with channels second. An error stops the model.
  using Watch = std::function<Status(size_t layer, const Tensor& output)>;

  virtual ~LayeredModel() = default;
  virtual std::span<const std::unique_ptr<nn::Layer>> layers() const = 0;
  // Of one example; nullopt where neither the model's file nor its layers say it.
  virtual std::optional<std::vector<uint64_t>> input_shape() const = 0;
  virtual Result<Tensor> forward_watched(Context& context, const Tensor& x, const Watch& watch) const = 0;
};

// Turns texts into vectors, one each, near to those of texts that mean the same.
class TextEmbedder {
 public:
  virtual ~TextEmbedder() = default;
  virtual uint64_t max_length() const = 0;  // in tokens, with those around the text
  virtual uint64_t width() const = 0;       // of the vector
  // The vectors [texts, width], pooled over the tokens and made one long where the files of the model say so. In one
  // pass, without padding: a text's vector does not depend on its company. More tokens than max_length(), ids that do
  // not exist, and types that are not as many as the ids are kInvalidArgument with the numbers.
  virtual Result<Tensor> embed(Context& context, std::span<const EmbedderText> texts) const = 0;
};

// Const methods may be called from several threads, each with a context of its own.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::string_view kind() const = 0;
  // Input of the wrong type is kInvalidArgument and says what the model takes.
  virtual Result<ModelOutput> forward(Context& context, const ModelInput& input) const = 0;
  virtual const CausalLm* as_causal_lm() const { return nullptr; }
  virtual const ImageClassifier* as_image_classifier() const { return nullptr; }
  virtual const TextEmbedder* as_text_embedder() const { return nullptr; }
  // Whether it takes tensors of any shape (ValuesInput), as far as its layers do.
  virtual bool takes_values() const { return false; }
  // What its outputs stand for, where the model's files say it; empty otherwise.
  virtual std::span<const std::string> class_names() const { return {}; }
  // Null where it is not a list of layers.
  virtual const LayeredModel* as_layered() const { return nullptr; }
};

struct WantedParam {
  std::string name;
  Dims dims;
};

// Hands a model its parameters while it is built, and remembers which it took.
class ParamLoader {
 public:
  explicit ParamLoader(ParamStore& store) : store_(&store) {}
  // For a model that has no parameters yet: writes down what it asks for and hands out parameters that are not valid.
  // What is built that way only shows which parameters there must be. Nothing optional is there.
  explicit ParamLoader(std::vector<WantedParam>& wanted) : wanted_(&wanted) {}

  // kNotFound names the parameter and near misses; another shape than `dims` is kInvalidArgument with both. Names are
  // ASCII segments with dots between them; taking one twice is an error.
  Result<Param> get(const std::string& name, const Dims& dims);
  // Any shape of this rank.
  Result<Param> get_rank(const std::string& name, size_t rank);
  bool has(std::string_view name) const;
  // Parameters whose names begin so are known and of no use here: the file may hold them.
  void pass_over(std::string_view beginning);
  const std::vector<std::string>& taken() const { return taken_; }
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  Status check_name(const std::string& name) const;

  ParamStore* store_ = nullptr;
  std::vector<WantedParam>* wanted_ = nullptr;
  std::vector<std::string> taken_, passed_over_;
  std::unordered_set<std::string> seen_;
};

}  // namespace ballast
