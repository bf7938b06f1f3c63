// Encoders of BERT's kind: every token sees every other, and a norm stands behind each part.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "ballast/models/config/bert_config.h"
#include "ballast/models/decoder_params.h"
#include "ballast/models/kinds.h"
#include "ballast/models/token_input.h"

namespace ballast {

namespace {

struct BertBlock {
  DecoderMatrix qkv;                // where the file has one matrix for the three
  DecoderMatrix query, key, value;  // otherwise
  DecoderMatrix output, up, down;
  DecoderNorm attention_norm, feed_norm;
};

struct BertParams {
  Param words, positions, types;
  DecoderNorm norm;
  std::vector<BertBlock> blocks;
};

// ---------------------------------------------------------------- parameters

class BertLoader {
  using enum DecoderPart;

 public:
  BertLoader(BertDescription& description, ParamLoader& params) : d_(description), params_(params) {
    place_.prefix = d_.naming->prefixes.back();
    for (const std::string_view prefix : d_.naming->prefixes) {
      if (params_.has(decoder_param_name(*d_.naming->find(kEmbedding), {.prefix = prefix}, ".weight")))
        place_.prefix = prefix;
    }
  }

  Result<BertParams> load() {
    BertParams model;
    BALLAST_TRY(model.words, table(kEmbedding, d_.vocab, d_.least_vocab));
    BALLAST_TRY(model.positions, params_.get(name(kPositions, ".weight"), {d_.positions, d_.width}));
    BALLAST_TRY(model.types, table(kTokenTypes, d_.types, 1));
    BALLAST_TRY(model.norm, norm(kEmbeddingNorm));
    for (place_.layer = 0; place_.layer < d_.layers; ++place_.layer) {
      BALLAST_TRY(BertBlock block, load_block());
      model.blocks.push_back(std::move(block));
    }
    // For other tasks than states and vectors.
    for (const char* beginning : {"pooler.", "embeddings.position_ids"}) {
      params_.pass_over(std::string(place_.prefix) + beginning);
    }
    params_.pass_over("cls.");
    return model;
  }

 private:
  std::string name(DecoderPart part, std::string_view ending) const {
    return decoder_param_name(*d_.naming->find(part), place_, ending);
  }

  // Rows that the config does not count are as many as the file has.
  Result<Param> table(DecoderPart part, uint64_t& rows, uint64_t least) {
    if (rows != 0) return params_.get(name(part, ".weight"), {rows, d_.width});
    BALLAST_TRY(const Param param, params_.get_rank(name(part, ".weight"), 2));
    rows = param.shape()[0];
    if (rows >= least && param.shape()[1] == d_.width) return param;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("parameter \"{}\" has shape {}: the model needs {} rows of {} at least", param.name(),
                                  param.shape().to_string(), least, d_.width));
  }

  // Files from TensorFlow's days say gamma and beta.
  Result<DecoderNorm> norm(DecoderPart part) {
    const bool is_old = params_.has(name(part, ".gamma"));
    DecoderNorm norm;
    BALLAST_TRY(norm.gamma, params_.get(name(part, is_old ? ".gamma" : ".weight"), {d_.width}));
    BALLAST_TRY(norm.beta, params_.get(name(part, is_old ? ".beta" : ".bias"), {d_.width}));
    return norm;
  }

  Result<DecoderMatrix> matrix(DecoderPart part, uint64_t out, uint64_t in) {
    DecoderMatrix matrix;
    BALLAST_TRY(matrix.weight, params_.get(name(part, ".weight"), {out, in}));
    BALLAST_TRY(matrix.bias, params_.get(name(part, ".bias"), {out}));
    return matrix;
  }

  Status load_projections(BertBlock& block) {
    const DecoderName* fused = d_.naming->find(kQkv);
    if (fused != nullptr && params_.has(decoder_param_name(*fused, place_, ".weight"))) {
      return assign(block.qkv, matrix(kQkv, 3 * d_.width, d_.width));
    }
    BALLAST_TRY(block.query, matrix(kQuery, d_.width, d_.width));
    BALLAST_TRY(block.key, matrix(kKey, d_.width, d_.width));
    return assign(block.value, matrix(kValue, d_.width, d_.width));
  }

  Result<BertBlock> load_block() {
    BertBlock block;
    BALLAST_CHECK(load_projections(block));
    BALLAST_TRY(block.output, matrix(kOutput, d_.width, d_.width));
    BALLAST_TRY(block.attention_norm, norm(kAttentionPostNorm));
    BALLAST_TRY(block.up, matrix(kUp, d_.hidden, d_.width));
    BALLAST_TRY(block.down, matrix(kDown, d_.width, d_.hidden));
    BALLAST_TRY(block.feed_norm, norm(kFeedPostNorm));
    return block;
  }

  BertDescription& d_;
  ParamLoader& params_;
  DecoderPlace place_;
};

// ---------------------------------------------------------------- the model

class Bert final : public Model, public TextEmbedder {
 public:
  static Result<std::unique_ptr<Model>> build(const KindConfig& config, ParamLoader& params) {
    auto model = std::make_unique<Bert>();
    BALLAST_TRY(model->d_, describe_bert(config));
    BALLAST_TRY(model->p_, BertLoader(model->d_, params).load());
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "bert"; }
  const TextEmbedder* as_text_embedder() const override { return this; }
  uint64_t max_length() const override { return d_.max_length; }
  uint64_t width() const override { return d_.width; }

  Result<ModelOutput> forward(Context& context, const ModelInput& input) const override {
    BALLAST_TRY(const auto ids, tokens_of(input, kind()));
    BALLAST_CHECK(check_tokens(ids, d_.vocab, 0, d_.positions));
    const EmbedderText text{ids};
    return states(context, std::span(&text, 1));
  }

  Result<Tensor> embed(Context& context, std::span<const EmbedderText> texts) const override {
    if (d_.pooling == Pooling::kNone) {
      return make_error(ErrorCode::kUnsupported,
                        "the model says that states of tokens are not pooled (bert.pooling_type 0): it has no vector "
                        "for a text, only its forward pass");
    }
    for (const EmbedderText& text : texts) {
      BALLAST_CHECK(check_tokens(text.ids, d_.vocab, 0, d_.max_length));
      BALLAST_CHECK(check_types(text.ids, text.type_ids));
    }
    if (texts.empty()) return context.workspace().make({0, d_.width});
    BALLAST_TRY(const Tensor h, states(context, texts));
    return by_text(context, h, texts, [&](const Tensor& rows) -> Result<Tensor> {
      BALLAST_TRY(const Tensor pooled, pool(context, rows));
      return d_.normalise ? unit(context, pooled) : pooled;
    });
  }

 private:
  Status check_types(std::span<const TokenId> ids, std::span<const uint32_t> type_ids) const {
    if (!type_ids.empty() && type_ids.size() != ids.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{} types for {} tokens: each token has one", type_ids.size(), ids.size()));
    }
    for (size_t i = 0; i < type_ids.size(); ++i) {
      if (type_ids[i] < d_.types) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("type {} of the token at position {} is none of the {}", type_ids[i], i, d_.types));
    }
    return {};
  }

  // What `of` makes of the rows of each text, one after the other.
  template <typename Of>
  static Result<Tensor> by_text(Context& context, const Tensor& x, std::span<const EmbedderText> texts, const Of& of) {
    if (texts.size() == 1) return of(x);
    std::vector<Tensor> parts;
    uint64_t row = 0;
    for (const EmbedderText& text : texts) {
      BALLAST_TRY(const Tensor rows, ops::slice_along_axis(context, x, 0, row, text.ids.size()));
      BALLAST_TRY(Tensor part, of(rows));
      parts.push_back(std::move(part));
      row += text.ids.size();
    }
    return ops::concat_along_axis(context, parts, 0);
  }

  // [all tokens, width], of ids and types that were checked.
  Result<Tensor> states(Context& context, std::span<const EmbedderText> texts) const {
    BALLAST_TRY(Tensor h, start(context, texts));
    for (uint64_t i = 0; i < p_.blocks.size(); ++i) {
      const Context::Scope scope(context, "blocks", i);
      BALLAST_TRY(h, attend(context, p_.blocks[i], h, texts));
      BALLAST_TRY(h, think(context, p_.blocks[i], h));
    }
    return h;
  }

  Result<Tensor> start(Context& context, std::span<const EmbedderText> texts) const {
    std::vector<TokenId> ids;
    std::vector<uint32_t> type_ids, positions;
    for (const EmbedderText& text : texts) {
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
      type_ids.insert(type_ids.end(), text.type_ids.begin(), text.type_ids.end());
      type_ids.resize(ids.size());  // the first text of a pair is 0
      for (uint32_t i = 0; i < text.ids.size(); ++i) positions.push_back(i);
    }
    BALLAST_TRY(const Tensor words, ops::embedding_lookup(context.at("tok_embeddings"), p_.words, ids));
    BALLAST_TRY(const Tensor types, ops::embedding_lookup(context.at("type_embeddings"), p_.types, type_ids));
    BALLAST_TRY(const Tensor places, ops::embedding_lookup(context.at("pos_embeddings"), p_.positions, positions));
    BALLAST_TRY(Tensor h, ops::add(context, words, types));
    BALLAST_TRY(h, ops::add(context, h, places));
    return ops::layer_norm(context.at("embeddings"), h, p_.norm.gamma, p_.norm.beta, d_.eps);
  }

  // Packed [t, q | k | v].
  static Result<Tensor> project(Context& context, const BertBlock& block, const Tensor& h) {
    if (block.qkv.weight.valid()) {
      return ops::linear(context.at("attention.qkv"), h, block.qkv.weight, block.qkv.options());
    }
    constexpr std::array<std::string_view, 3> kNames = {"attention.query", "attention.key", "attention.value"};
    const std::array<const DecoderMatrix*, 3> matrices = {&block.query, &block.key, &block.value};
    std::array<Tensor, 3> parts;
    for (size_t i = 0; i < 3; ++i) {
      BALLAST_TRY(parts[i], ops::linear(context.at(kNames[i]), h, matrices[i]->weight, matrices[i]->options()));
    }
    return ops::concat_along_axis(context.at("attention.qkv"), parts, 1);
  }

  Result<Tensor> attend(Context& context, const BertBlock& block, const Tensor& h,
                        std::span<const EmbedderText> texts) const {
    ops::AttentionConfig config;
    config.q_heads = config.kv_heads = d_.heads;
    config.head_dim = d_.width / d_.heads;
    config.causal = false;
    BALLAST_TRY(const Tensor qkv, project(context, block, h));
    const auto look = [&](const Tensor& rows) { return ops::attention(context.at("attention.context"), config, rows); };
    BALLAST_TRY(const Tensor seen, by_text(context, qkv, texts, look));
    BALLAST_TRY(const Tensor x, added(context.at("attention.output"), seen, block.output, h));
    return ops::layer_norm(context.at("attention.norm"), x, block.attention_norm.gamma, block.attention_norm.beta,
                           d_.eps);
  }

  Result<Tensor> think(Context& context, const BertBlock& block, const Tensor& h) const {
    BALLAST_TRY(const Tensor hidden,
                ops::linear(context.at("feed_forward.hidden"), h, block.up.weight, block.up.options(d_.activation)));
    BALLAST_TRY(const Tensor x, added(context.at("feed_forward.output"), hidden, block.down, h));
    return ops::layer_norm(context.at("output"), x, block.feed_norm.gamma, block.feed_norm.beta, d_.eps);
  }

  static Result<Tensor> added(Context& context, const Tensor& x, const DecoderMatrix& matrix, const Tensor& residual) {
    ops::LinearOptions options = matrix.options();
    options.residual = &residual;
    return ops::linear(context, x, matrix.weight, options);
  }

  // ---------------------------------------------------------------- from states to a vector

  Result<Tensor> pool(Context& context, const Tensor& h) const {
    const uint64_t length = h.dims()[0];
    Tensor row;
    if (d_.pooling == Pooling::kFirst) {
      BALLAST_TRY(row, ops::slice_along_axis(context.at("pooled"), h, 0, 0, 1));
    } else {
      BALLAST_TRY(row, ops::global_mean_pool_nhwc(context.at("pooled"), h.reshaped({1, length, 1, d_.width})));
    }
    return row.reshaped({1, d_.width});
  }

  // Of a vector that is all zeros nothing can be made: it stays.
  Result<Tensor> unit(Context& context, const Tensor& x) const {
    BALLAST_TRY(Tensor length, ops::unary(context, UnaryOp::kSquare, x));
    BALLAST_TRY(length, ops::sum_last_dim(context, length));
    BALLAST_TRY(length, ops::unary(context, UnaryOp::kSqrt, length));
    BALLAST_TRY(length, ops::clamp(context.at("length"), length, 1e-12F, std::numeric_limits<float>::max()));
    constexpr std::array kOne = {1.0F};
    BALLAST_TRY(const Tensor one, context.workspace().from(kOne, {1}));
    BALLAST_TRY(const Tensor factor, ops::binary(context, BinaryOp::kDiv, one, length));
    return ops::scale_rows(context.at("unit"), x, factor);
  }

  BertDescription d_;
  BertParams p_;
};

}  // namespace

const ModelKind kBertKind = {"bert", "Encoders from Hugging Face and GGUF: BERT, MiniLM, bge: texts to vectors",
                             Bert::build};

}  // namespace ballast
