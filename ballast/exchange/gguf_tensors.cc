#include "ballast/exchange/gguf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

#include "ballast/archive/cast_tensor.h"
#include "ballast/edit/tensor_stream.h"
#include "ballast/edit/transpose.h"

namespace ballast {

namespace {

using enum DecoderPart;

bool is_one_of(DecoderPart part, std::initializer_list<DecoderPart> parts) {
  return std::ranges::find(parts, part) != parts.end();
}

bool is_norm(DecoderPart part) {
  return is_one_of(part, {kEmbeddingNorm, kFinalNorm, kAttentionNorm, kQueryNorm, kKeyNorm, kAttentionPostNorm,
                          kFeedNorm, kFeedPostNorm});
}

// What old files keep beside the weights and nobody reads.
bool is_buffer(DecoderPart part) { return is_one_of(part, {kMaskBuffer, kMaskValueBuffer, kRopeBuffer}); }

// Row h * 2 * half + s * half + j becomes row h * 2 * half + 2 * j + s.
std::vector<uint64_t> pair_order(uint64_t channels) {
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < channels; ++i) order.push_back(i % 2 * (channels / 2) + i / 2);
  return order;
}

class GgufTensorMaker {
 public:
  GgufTensorMaker(const GgufTensorRules& rules, WritePlan& plan)
      : rules_(rules), in_(plan), gate_(std::make_shared<MemoryGate>()) {
    for (size_t i = 0; i < in_.description.tensors.size(); ++i) index_[in_.description.tensors[i].name] = i;
  }

  Status run(std::vector<std::string>& notes) {
    find_prefix();
    for (const GgufExtraTensor& extra : rules_.extra) add_extra(extra);
    for (size_t i = 0; i < in_.description.tensors.size(); ++i) BALLAST_CHECK(take(i));
    BALLAST_CHECK(check_whole());
    if (!left_out_.empty()) {
      constexpr size_t kMostNamed = 3;
      const std::vector<std::string> named(left_out_.begin(),
                                           left_out_.begin() + std::min(kMostNamed, left_out_.size()));
      notes.push_back(fmt::format("{} tensor{} that the model does not use {} left out: {}{}", left_out_.size(),
                                  left_out_.size() == 1 ? "" : "s", left_out_.size() == 1 ? "is" : "are",
                                  fmt::join(named, ", "), left_out_.size() > kMostNamed ? ", ..." : ""));
    }
    in_.description.tensors = std::move(out_.description.tensors);
    in_.providers = std::move(out_.providers);
    in_.ties.clear();
    return {};
  }

 private:
  // ---- names

  bool has_part(DecoderPart part, std::string_view prefix) const {
    const DecoderName* name = rules_.from->find(part);
    return name != nullptr && index_.contains(decoder_param_name(*name, {.prefix = prefix}, name->weight));
  }

  // As the model's loader looks for it.
  void find_prefix() {
    prefix_ = rules_.from->prefixes.front();
    for (const std::string_view prefix : rules_.from->prefixes) {
      if (!has_part(kEmbedding, prefix) && !has_part(kFinalNorm, prefix)) continue;
      prefix_ = prefix;
      break;
    }
    head_is_embedding_ = !has_part(kEmbedding, prefix_) && has_part(kHead, prefix_);
  }

  Result<std::string> gguf_name(DecoderPart part, uint64_t layer, std::string_view ending) const {
    if (const DecoderName* name = rules_.to->find(part)) return decoder_param_name(*name, {"", layer, 0}, ending);
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("GGUF has no name for part {} of a layer", static_cast<int>(part)));
  }

  // Old files of BERT call the weights of a norm otherwise.
  static std::string modern_name(const std::string& name) {
    if (name.ends_with(".gamma")) return name.substr(0, name.size() - 6) + ".weight";
    if (name.ends_with(".beta")) return name.substr(0, name.size() - 5) + ".bias";
    return name;
  }

  // ---- one tensor after the other

  Status take(size_t index) {
    const std::string& stored = in_.description.tensors[index].name;
    const std::string name = modern_name(stored);
    const auto found = find_decoder_name(*rules_.from, prefix_, name);
    if (!found || found->layer >= std::max<uint64_t>(rules_.layers, 1)) {
      left_out_.push_back(stored);
      return {};
    }
    const DecoderPart part = found->name->part;
    const std::string_view ending = found->ending.empty() ? ".weight" : found->ending;
    if (is_buffer(part) || (part == kHead && rules_.drop_head && !head_is_embedding_)) return {};
    if (is_one_of(part, {kExpertGate, kExpertUp, kExpertDown})) return take_expert(*found, index);
    if (part == kStackedGateUp) return split_gate_up(index, found->layer);
    BALLAST_TRY(std::string target,
                gguf_name(part == kHead && head_is_embedding_ ? kEmbedding : part, found->layer, ending));
    return add(index, part, std::move(target), ending == ".weight");
  }

  Status add(size_t index, DecoderPart part, std::string name, bool is_weight) {
    TensorInfo info = in_.description.tensors[index];
    TensorProvider provider = in_.providers[index];
    const bool is_matrix = is_one_of(part, {kQkv, kOutput, kUp, kDown}) && is_weight;
    if (rules_.transposed && is_matrix) {
      if (!can_transpose(info)) return wrong_shape(info, "a matrix");
      provider = transposed(std::move(provider), info.shape[0], info.shape[1], dtype_info(info.dtype).bits / 8, gate_);
      info.shape = Shape{info.shape[1], info.shape[0]};
    }
    if (part == kQuery && rules_.paired_q_heads != 0) {
      BALLAST_CHECK(pair_rows(info, rules_.paired_q_heads, provider));
    } else if (part == kKey && rules_.paired_kv_heads != 0) {
      BALLAST_CHECK(pair_rows(info, rules_.paired_kv_heads, provider));
    }
    const bool wide = info.shape.rank() <= 1 || is_norm(part) ||
                      is_one_of(part, {kRouter, kSharedSwitch, kPositions, kTokenTypes}) || !is_weight;
    BALLAST_CHECK(put(std::move(info), std::move(provider), std::move(name), wide));
    if (is_norm(part) && rules_.norm_shift != 0) shift_last();
    return {};
  }

  Status pair_rows(const TensorInfo& info, uint64_t heads, TensorProvider& provider) const {
    const uint64_t rows = info.shape.rank() == 0 ? 0 : info.shape[0];
    if (rows == 0 || rows % (2 * heads) != 0 || info.byte_size % rows != 0) {
      return wrong_shape(info, fmt::format("rows for {} heads", heads));
    }
    provider = reordered_rows(std::move(provider), info.byte_size / rows, pair_order(rows / heads));
    return {};
  }

  void shift_last() {
    const float shift = rules_.norm_shift;
    TensorProvider& last = out_.providers.back();
    last = changed_values(std::move(last), [shift]() -> Result<ChangeValue> {
      return ChangeValue([shift](float value, uint64_t) { return value + shift; });
    });
  }

  // ---- experts

  // One tensor for all experts of a layer, once the last of them is there.
  Status take_expert(const FoundDecoderName& found, size_t index) {
    if (found.expert >= rules_.experts) {
      left_out_.push_back(in_.description.tensors[index].name);
      return {};
    }
    LayerExperts& layer = experts_[found.layer];
    layer.tensors[{found.name->part, found.expert}] = index;
    if (layer.tensors.size() < 3 * rules_.experts) return {};
    const bool down_first = rules_.down_first;
    for (const DecoderPart part : down_first ? std::array{kExpertDown, kExpertGate, kExpertUp}
                                             : std::array{kExpertGate, kExpertDown, kExpertUp}) {
      BALLAST_CHECK(stack(layer, part, found.layer));
    }
    return {};
  }

  struct LayerExperts {
    std::map<std::pair<DecoderPart, uint64_t>, size_t> tensors;
  };

  Status stack(const LayerExperts& layer, DecoderPart part, uint64_t number) {
    std::vector<TensorProvider> providers;
    TensorInfo info;
    for (uint64_t expert = 0; expert < rules_.experts; ++expert) {
      const size_t index = layer.tensors.at({part, expert});
      const TensorInfo& one = in_.description.tensors[index];
      if (expert == 0) info = one;
      if (one.shape.rank() != 2 || !(one.shape == info.shape) || one.dtype != info.dtype) {
        return wrong_shape(one, "the shape and type of the layer's first expert");
      }
      providers.push_back(in_.providers[index]);
    }
    info.shape = Shape{rules_.experts, info.shape[0], info.shape[1]};
    info.byte_size *= rules_.experts;
    const DecoderPart stacked = part == kExpertGate ? kStackedGate : part == kExpertUp ? kStackedUp : kStackedDown;
    BALLAST_TRY(std::string name, gguf_name(stacked, number, ".weight"));
    return put(std::move(info), joined(std::move(providers)), std::move(name), false);
  }

  // [experts, gate and up, width] becomes two.
  Status split_gate_up(size_t index, uint64_t layer) {
    const TensorInfo& both = in_.description.tensors[index];
    if (both.shape.rank() != 3 || both.shape[0] == 0 || both.shape[1] == 0 || both.shape[1] % 2 != 0) {
      return wrong_shape(both, "[experts, 2 * hidden, width]");
    }
    TensorInfo half = both;
    half.shape = Shape{both.shape[0], both.shape[1] / 2, both.shape[2]};
    half.byte_size = both.byte_size / 2;
    const uint64_t expert_bytes = both.byte_size / both.shape[0];
    for (const bool is_up : {false, true}) {
      BALLAST_TRY(std::string name, gguf_name(is_up ? kStackedUp : kStackedGate, layer, ".weight"));
      const uint64_t begin = is_up ? expert_bytes / 2 : 0;
      BALLAST_CHECK(put(half, row_ranges(in_.providers[index], expert_bytes, begin, begin + expert_bytes / 2),
                        std::move(name), false));
    }
    return {};
  }

  // ---- what is written

  void add_extra(const GgufExtraTensor& extra) {
    TensorInfo info;
    info.name = extra.name;
    info.shape = Shape{extra.values.size()};
    info.byte_size = extra.values.size() * sizeof(float);
    ByteVector bytes(info.byte_size);
    for (size_t i = 0; i < extra.values.size(); ++i) {
      store_le(&bytes[i * sizeof(float)], std::bit_cast<uint32_t>(extra.values[i]));
    }
    names_.insert(info.name);
    out_.add_tensor(std::move(info), [bytes = std::move(bytes)](ByteSink& sink) { return sink.write(bytes); });
  }

  Status put(TensorInfo info, TensorProvider provider, std::string name, bool wide) {
    const DType dtype = info.dtype;
    const bool is_kept = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
    if (!is_kept && dtype != DType::kF64) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("tensor \"{}\" is {}: weights of f32, f16 and bf16 become a GGUF file that runs; "
                                    "cast others first",
                                    info.name, info.type_name()),
                        Remedy::kCastTensors);
    }
    if (!names_.insert(name).second) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("tensor \"{}\": another one is called {} in GGUF files too", info.name, name));
    }
    TensorInfo made;
    made.name = std::move(name);
    made.dtype = dtype;
    made.shape = info.shape;
    made.byte_size = info.byte_size;
    out_.add_tensor(std::move(made), std::move(provider));
    if (dtype == DType::kF32 || (is_kept && !wide)) return {};
    return cast_tensor(out_, out_.description.tensors.size() - 1, DType::kF32);
  }

  static Error wrong_shape(const TensorInfo& info, std::string_view wanted) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\" has shape {}, which is not {}", info.name,
                                                               info.shape.to_string(), wanted));
  }

  // ---- nothing is missing

  bool has(DecoderPart part, uint64_t layer) const {
    const auto name = gguf_name(part, layer, ".weight");
    return name && names_.contains(*name);
  }

  Status check_whole() const {
    BALLAST_CHECK(require(has(kEmbedding, 0), kEmbedding, 0));
    for (uint64_t i = 0; i < rules_.layers; ++i) {
      const bool has_qkv = has(kQkv, i);
      for (const DecoderPart part : {kQuery, kKey, kValue}) BALLAST_CHECK(require(has_qkv || has(part, i), part, i));
      BALLAST_CHECK(require(has(kOutput, i), kOutput, i));
      BALLAST_CHECK(require(has(kDown, i) || has(kStackedDown, i), kDown, i));
    }
    return {};
  }

  Status require(bool is_there, DecoderPart part, uint64_t layer) const {
    if (is_there) return {};
    const DecoderName* name = rules_.from->find(part);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\" is missing: the model would not run",
                                  name == nullptr ? "" : decoder_param_name(*name, {prefix_, layer, 0}, name->weight)));
  }

  const GgufTensorRules& rules_;
  WritePlan& in_;
  WritePlan out_;
  std::shared_ptr<MemoryGate> gate_;
  std::map<std::string, size_t> index_;
  std::string_view prefix_;
  bool head_is_embedding_ = false;
  std::map<uint64_t, LayerExperts> experts_;
  std::set<std::string> names_;
  std::vector<std::string> left_out_;
};

}  // namespace

Status make_gguf_tensors(const GgufTensorRules& rules, WritePlan& plan, std::vector<std::string>& notes) {
  return GgufTensorMaker(rules, plan).run(notes);
}

}  // namespace ballast
