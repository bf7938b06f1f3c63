#include "ballast/exchange/folder_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace ballast {

namespace {

using enum DecoderPart;

// What a move says beside its names.
struct How {
  uint64_t first_row = 0;
  uint64_t head_rows = 0;
  bool transposed = false;
  bool less_one = false;
};

// Walks the parts of a model and notes what each tensor of the folder is made of.
class FolderMover {
 public:
  FolderMover(const DecoderNaming& from, const FolderLayout& layout, const Archive& archive)
      : from_(from), layout_(layout), archive_(archive) {
    for (const std::string_view prefix : from.prefixes) {
      from_place_.prefix = prefix;
      if (has(kEmbedding) || has(kFinalNorm)) return;
    }
  }

  void set_layer(uint64_t layer) { from_place_.layer = to_place_.layer = layer; }
  FolderTensors& made() { return made_; }

  bool has(DecoderPart part, std::string_view ending = ".weight") const {
    return archive_.find(source_name(part, ending)).has_value();
  }

  // Part of a tensor, or all of it, as a tensor of this shape under the name of `to`.
  Status move(DecoderPart part, DecoderPart to, std::string_view ending, const Shape& shape, const How& how) {
    const std::string name = source_name(part, ending);
    BALLAST_TRY(const TensorInfo* tensor, find(name));
    BALLAST_CHECK(check_rows(*tensor, shape, how.first_row));
    used_.insert(name);
    add({name}, target_name(to, ending), shape, how);
    return {};
  }

  Status whole(DecoderPart part, std::string_view ending, const Shape& shape, const How& how = {}) {
    BALLAST_TRY(const TensorInfo* tensor, find(source_name(part, ending)));
    if (tensor->shape.element_count() != shape.element_count()) return wrong_shape(*tensor, shape);
    return move(part, part, ending, shape, how);
  }

  // Several tensors under each other, as one.
  Status join(std::span<const DecoderPart> parts, DecoderPart to, std::string_view ending, const Shape& shape) {
    std::vector<std::string> names;
    const TensorInfo* first = nullptr;
    for (const DecoderPart part : parts) {
      names.push_back(source_name(part, ending));
      BALLAST_TRY(const TensorInfo* tensor, find(names.back()));
      if (first == nullptr) first = tensor;
      if (tensor->dtype != first->dtype) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("tensors \"{}\" ({}) and \"{}\" ({}) are one tensor in a Hugging Face folder and "
                                      "must have the same type",
                                      first->name, dtype_name(first->dtype), tensor->name, dtype_name(tensor->dtype)));
      }
      used_.insert(names.back());
    }
    add(std::move(names), target_name(to, ending), shape, {.transposed = layout_.transposed && shape.rank() == 2});
    return {};
  }

  // Tensors that say what config.json says over there.
  void drop(DecoderPart part) {
    if (!has(part)) return;
    used_.insert(source_name(part, ".weight"));
    made_.dropped.push_back(source_name(part, ".weight"));
  }

  // One with a number for each expert.
  void set_expert(uint64_t expert) { from_place_.expert = to_place_.expert = expert; }

  Result<Shape> shape_of(DecoderPart part) const {
    BALLAST_TRY(const TensorInfo* tensor, find(source_name(part, ".weight")));
    return tensor->shape;
  }

  // Nothing may be lost without a word.
  Status refuse_unused() const {
    for (const TensorInfo& tensor : archive_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("tensor \"{}\" has no place in transformers' class for this model", tensor.name));
    }
    return {};
  }

 private:
  std::string source_name(DecoderPart part, std::string_view ending) const {
    const DecoderName* name = from_.find(part);
    return name == nullptr ? "" : decoder_param_name(*name, from_place_, ending);
  }
  std::string target_name(DecoderPart part, std::string_view ending) const {
    return decoder_param_name(*layout_.naming->find(part), {layout_.prefix, to_place_.layer, to_place_.expert}, ending);
  }

  Result<const TensorInfo*> find(const std::string& name) const {
    const auto position = archive_.find(name);
    if (position) return &archive_.tensors()[*position];
    return make_error(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" is missing, which its config asks for", name));
  }

  static Error wrong_shape(const TensorInfo& tensor, const Shape& wanted) {
    return make_error(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" is {}; its config asks for {}", tensor.name,
                                                       tensor.shape.to_string(), wanted.to_string()));
  }

  // Leading axes of length 1 are nobody's business.
  static Status check_rows(const TensorInfo& tensor, const Shape& wanted, uint64_t first_row) {
    const auto have = tensor.shape.element_count(), need = wanted.element_count();
    const uint64_t width = wanted.rank() == 1 ? 1 : wanted[wanted.rank() - 1];
    const bool same_rows =
        tensor.shape.rank() != 0 && (wanted.rank() == 1 || tensor.shape[tensor.shape.rank() - 1] == width);
    if (!have || !need || !same_rows || first_row > *have || *need > *have) return wrong_shape(tensor, wanted);
    if (first_row <= (*have - *need) / std::max<uint64_t>(width, 1)) return {};
    return wrong_shape(tensor, wanted);
  }

  void add(std::vector<std::string> from, std::string to, const Shape& shape, const How& how) {
    made_.moves.push_back({.from = std::move(from),
                           .to = std::move(to),
                           .shape = shape,
                           .first_row = how.first_row,
                           .head_rows = how.head_rows,
                           .transposed = how.transposed,
                           .less_one = how.less_one});
  }

  const DecoderNaming& from_;
  const FolderLayout& layout_;
  const Archive& archive_;
  DecoderPlace from_place_, to_place_;
  FolderTensors made_;
  std::set<std::string, std::less<>> used_;
};

// ---------------------------------------------------------------- decoders

class DecoderMover {
 public:
  DecoderMover(const DecoderDescription& d, const FolderLayout& layout, const Archive& archive)
      : d_(d), layout_(layout), mover_(*d.naming, layout, archive) {}

  Result<FolderTensors> build() {
    BALLAST_CHECK(move_ends());
    find_biases();
    for (uint64_t i = 0; i < d_.layers.size(); ++i) {
      mover_.set_layer(i);
      BALLAST_CHECK(move_layer(d_.layers[i]));
    }
    for (const DecoderPart part : {kRopeDivisors, kRopeLongDivisors, kRopeShortDivisors}) mover_.drop(part);
    BALLAST_CHECK(mover_.refuse_unused());
    return std::move(mover_.made());
  }

 private:
  Status move_ends() {
    FolderTensors& made = mover_.made();
    const bool head_only = !mover_.has(kEmbedding) && mover_.has(kHead);  // it stands in for both
    const DecoderPart embedding = head_only ? kHead : kEmbedding;
    BALLAST_TRY(const Shape shape, mover_.shape_of(embedding));
    made.vocab = shape.rank() == 2 ? shape[0] : 0;
    const Shape wanted{made.vocab, d_.width};
    BALLAST_CHECK(mover_.move(embedding, kEmbedding, ".weight", wanted, {}));
    made.tied = head_only || !mover_.has(kHead);
    if (!made.tied) BALLAST_CHECK(mover_.whole(kHead, ".weight", wanted));
    if (d_.learned_positions) BALLAST_CHECK(mover_.whole(kPositions, ".weight", {d_.context, d_.width}));
    return norm(kFinalNorm, d_.width);
  }

  void find_biases() {
    mover_.set_layer(0);
    FolderBiases& biases = mover_.made().biases;
    biases.qkv = mover_.has(kQuery, ".bias") || mover_.has(kQkv, ".bias");
    biases.output = mover_.has(kOutput, ".bias");
    biases.feed = mover_.has(kDown, ".bias");
  }

  Status norm(DecoderPart part, uint64_t width) {
    BALLAST_CHECK(mover_.whole(part, ".weight", Shape{width}, {.less_one = layout_.less_one}));
    return d_.norm == NormKind::kRms ? Status{} : mover_.whole(part, ".bias", Shape{width});
  }

  // A bias that only some layers have is left over, and refused.
  Status matrix(DecoderPart part, uint64_t out, uint64_t in, bool bias, uint64_t head_rows = 0) {
    BALLAST_CHECK(mover_.whole(part, ".weight", {out, in}, {.head_rows = head_rows, .transposed = layout_.transposed}));
    return bias ? mover_.whole(part, ".bias", Shape{out}, {.head_rows = head_rows}) : Status{};
  }

  Status move_layer(const DecoderLayer& layer) {
    const FolderBiases biases = mover_.made().biases;
    BALLAST_CHECK(norm(kAttentionNorm, d_.width));
    BALLAST_CHECK(move_projections(biases.qkv));
    if (d_.qk_norm) {
      BALLAST_CHECK(norm(kQueryNorm, d_.head_dim));
      BALLAST_CHECK(norm(kKeyNorm, d_.head_dim));
    }
    BALLAST_CHECK(matrix(kOutput, d_.width, d_.q_heads * d_.head_dim, biases.output));
    BALLAST_CHECK(norm(kFeedNorm, d_.width));
    if (d_.post_norms) {
      BALLAST_CHECK(norm(kAttentionPostNorm, d_.width));
      BALLAST_CHECK(norm(kFeedPostNorm, d_.width));
    }
    return layer.sparse ? move_experts() : move_feed(biases.feed);
  }

  // Each part with its rows in the one matrix that some files have for all three.
  struct Projection {
    DecoderPart part;
    uint64_t first_row, rows, head_rows;
  };

  Status move_projections(bool bias) {
    const uint64_t q = d_.q_heads * d_.head_dim, kv = d_.kv_heads * d_.head_dim, all = q + 2 * kv;
    const uint64_t head_rows = d_.rope.layout == ops::RopeLayout::kPairs ? d_.head_dim : 0;
    if (layout_.fused_qkv) return move_fused_projections(all, bias);
    const bool fused = mover_.has(kQkv);
    for (const Projection& p :
         {Projection{kQuery, 0, q, head_rows}, {kKey, q, kv, head_rows}, {kValue, q + kv, kv, 0}}) {
      if (!fused) {
        BALLAST_CHECK(matrix(p.part, p.rows, d_.width, bias, p.head_rows));
        continue;
      }
      const How how{.first_row = p.first_row, .head_rows = p.head_rows};
      BALLAST_CHECK(mover_.move(kQkv, p.part, ".weight", {p.rows, d_.width}, how));
      if (bias) BALLAST_CHECK(mover_.move(kQkv, p.part, ".bias", Shape{p.rows}, how));
    }
    return {};
  }

  Status move_fused_projections(uint64_t rows, bool bias) {
    if (mover_.has(kQkv)) return matrix(kQkv, rows, d_.width, bias);
    constexpr DecoderPart kParts[] = {kQuery, kKey, kValue};
    BALLAST_CHECK(mover_.join(kParts, kQkv, ".weight", {rows, d_.width}));
    return bias ? mover_.join(kParts, kQkv, ".bias", Shape{rows}) : Status{};
  }

  Status move_feed(bool bias) {
    if (d_.fused_gate_up == Presence::kRequired) {
      BALLAST_CHECK(matrix(kGateUp, 2 * d_.hidden, d_.width, false));
    } else {
      if (d_.gated) BALLAST_CHECK(matrix(kGate, d_.hidden, d_.width, bias));
      BALLAST_CHECK(matrix(kUp, d_.hidden, d_.width, bias));
    }
    return matrix(kDown, d_.width, d_.hidden, bias);
  }

  Status move_experts() {
    BALLAST_CHECK(matrix(kRouter, d_.experts.count, d_.width, false));
    const bool stacked = mover_.has(kStackedDown);
    for (uint64_t i = 0; i < d_.experts.count; ++i) {
      mover_.set_expert(i);
      BALLAST_CHECK(stacked ? move_from_stack(i) : move_expert());
    }
    if (d_.experts.shared_hidden == 0) return {};
    BALLAST_CHECK(matrix(kSharedGate, d_.experts.shared_hidden, d_.width, false));
    BALLAST_CHECK(matrix(kSharedUp, d_.experts.shared_hidden, d_.width, false));
    BALLAST_CHECK(matrix(kSharedDown, d_.width, d_.experts.shared_hidden, false));
    return matrix(kSharedSwitch, 1, d_.width, false);
  }

  Status move_expert() {
    BALLAST_CHECK(matrix(kExpertGate, d_.experts.hidden, d_.width, false));
    BALLAST_CHECK(matrix(kExpertUp, d_.experts.hidden, d_.width, false));
    return matrix(kExpertDown, d_.width, d_.experts.hidden, false);
  }

  Status move_from_stack(uint64_t expert) {
    const uint64_t hidden = d_.experts.hidden;
    const Shape in{hidden, d_.width};
    if (mover_.has(kStackedGateUp)) {
      const uint64_t first = 2 * hidden * expert;
      BALLAST_CHECK(mover_.move(kStackedGateUp, kExpertGate, ".weight", in, {.first_row = first}));
      BALLAST_CHECK(mover_.move(kStackedGateUp, kExpertUp, ".weight", in, {.first_row = first + hidden}));
    } else {
      BALLAST_CHECK(mover_.move(kStackedGate, kExpertGate, ".weight", in, {.first_row = hidden * expert}));
      BALLAST_CHECK(mover_.move(kStackedUp, kExpertUp, ".weight", in, {.first_row = hidden * expert}));
    }
    return mover_.move(kStackedDown, kExpertDown, ".weight", {d_.width, hidden}, {.first_row = d_.width * expert});
  }

  const DecoderDescription& d_;
  const FolderLayout& layout_;
  FolderMover mover_;
};

// ---------------------------------------------------------------- encoders

class BertMover {
 public:
  BertMover(const BertDescription& d, const FolderLayout& layout, const Archive& archive)
      : d_(d), mover_(*d.naming, layout, archive) {}

  Result<FolderTensors> build() {
    FolderTensors& made = mover_.made();
    made.tied = true;
    BALLAST_TRY(made.vocab, table(kEmbedding));
    BALLAST_TRY(made.token_types, table(kTokenTypes));
    BALLAST_CHECK(mover_.whole(kPositions, ".weight", {d_.positions, d_.width}));
    BALLAST_CHECK(both(kEmbeddingNorm, Shape{d_.width}, d_.width));
    for (uint64_t i = 0; i < d_.layers; ++i) {
      mover_.set_layer(i);
      BALLAST_CHECK(move_layer());
    }
    BALLAST_CHECK(mover_.refuse_unused());
    return std::move(made);
  }

 private:
  // How many rows it has.
  Result<uint64_t> table(DecoderPart part) {
    BALLAST_TRY(const Shape shape, mover_.shape_of(part));
    const uint64_t rows = shape.rank() == 2 ? shape[0] : 1;
    BALLAST_CHECK(mover_.whole(part, ".weight", {rows, d_.width}));
    return rows;
  }

  Status both(DecoderPart part, const Shape& shape, uint64_t out) {
    BALLAST_CHECK(mover_.whole(part, ".weight", shape));
    return mover_.whole(part, ".bias", Shape{out});
  }

  Status move_layer() {
    for (const DecoderPart part : {kQuery, kKey, kValue, kOutput}) {
      BALLAST_CHECK(both(part, {d_.width, d_.width}, d_.width));
    }
    BALLAST_CHECK(both(kAttentionPostNorm, Shape{d_.width}, d_.width));
    BALLAST_CHECK(both(kUp, {d_.hidden, d_.width}, d_.hidden));
    BALLAST_CHECK(both(kDown, {d_.width, d_.hidden}, d_.width));
    return both(kFeedPostNorm, Shape{d_.width}, d_.width);
  }

  const BertDescription& d_;
  FolderMover mover_;
};

}  // namespace

Result<FolderTensors> plan_decoder_tensors(const DecoderDescription& d, const FolderLayout& layout,
                                           const Archive& archive) {
  return DecoderMover(d, layout, archive).build();
}

Result<FolderTensors> plan_bert_tensors(const BertDescription& d, const Archive& archive) {
  const FolderLayout layout{.naming = &kBertNaming};
  return BertMover(d, layout, archive).build();
}

}  // namespace ballast
