#include "ballast/models/decoder_names.h"

#include <algorithm>

namespace ballast {

namespace {

using enum DecoderPart;

// Models that also see wrap the part that reads.
constexpr std::string_view kHuggingFacePrefixes[] = {"model.", "model.language_model.", "language_model.model.", ""};
constexpr std::string_view kGpt2Prefixes[] = {"transformer.", ""};
constexpr std::string_view kBertPrefixes[] = {"bert.", ""};
constexpr std::string_view kNoPrefix[] = {""};

constexpr DecoderName kHuggingFaceNames[] = {
    {kEmbedding, "@embed_tokens"},
    {kFinalNorm, "@norm"},
    {kHead, "^lm_head"},
    {kAttentionNorm, "@layers.{}.input_layernorm"},
    {kQuery, "@layers.{}.self_attn.q_proj"},
    {kKey, "@layers.{}.self_attn.k_proj"},
    {kValue, "@layers.{}.self_attn.v_proj"},
    {kQkv, "@layers.{}.self_attn.qkv_proj"},
    {kQueryNorm, "@layers.{}.self_attn.q_norm"},
    {kKeyNorm, "@layers.{}.self_attn.k_norm"},
    {kOutput, "@layers.{}.self_attn.o_proj"},
    {kFeedNorm, "@layers.{}.post_attention_layernorm"},
    {kGate, "@layers.{}.mlp.gate_proj"},
    {kUp, "@layers.{}.mlp.up_proj"},
    {kGateUp, "@layers.{}.mlp.gate_up_proj"},
    {kDown, "@layers.{}.mlp.down_proj"},
    {kRouter, "@layers.{}.mlp.gate"},
    {kExpertGate, "@layers.{}.mlp.experts.{}.gate_proj"},
    {kExpertUp, "@layers.{}.mlp.experts.{}.up_proj"},
    {kExpertDown, "@layers.{}.mlp.experts.{}.down_proj"},
    {kStackedGateUp, "@layers.{}.mlp.experts.gate_up_proj", ""},
    {kStackedDown, "@layers.{}.mlp.experts.down_proj", ""},
    {kSharedGate, "@layers.{}.mlp.shared_expert.gate_proj"},
    {kSharedUp, "@layers.{}.mlp.shared_expert.up_proj"},
    {kSharedDown, "@layers.{}.mlp.shared_expert.down_proj"},
    {kSharedSwitch, "@layers.{}.mlp.shared_expert_gate"},
    {kRopeBuffer, "@layers.{}.self_attn.rotary_emb.inv_freq", ""},
};

// What llama calls post_attention_layernorm stands in front of the feed-forward part; here it is what it says.
constexpr DecoderName kGemmaNames[] = {
    {kAttentionPostNorm, "@layers.{}.post_attention_layernorm"},
    {kFeedNorm, "@layers.{}.pre_feedforward_layernorm"},
    {kFeedPostNorm, "@layers.{}.post_feedforward_layernorm"},
};

constexpr DecoderName kMixtralNames[] = {
    {kRouter, "@layers.{}.block_sparse_moe.gate"},
    {kExpertGate, "@layers.{}.block_sparse_moe.experts.{}.w1"},
    {kExpertUp, "@layers.{}.block_sparse_moe.experts.{}.w3"},
    {kExpertDown, "@layers.{}.block_sparse_moe.experts.{}.w2"},
    {kStackedGateUp, "@layers.{}.block_sparse_moe.experts.gate_up_proj", ""},
    {kStackedDown, "@layers.{}.block_sparse_moe.experts.down_proj", ""},
};

constexpr DecoderName kGpt2Names[] = {
    {kEmbedding, "@wte"},
    {kPositions, "@wpe"},
    {kFinalNorm, "@ln_f"},
    {kHead, "lm_head"},
    {kAttentionNorm, "@h.{}.ln_1"},
    {kQkv, "@h.{}.attn.c_attn"},
    {kOutput, "@h.{}.attn.c_proj"},
    {kFeedNorm, "@h.{}.ln_2"},
    {kUp, "@h.{}.mlp.c_fc"},
    {kDown, "@h.{}.mlp.c_proj"},
    {kMaskBuffer, "@h.{}.attn.bias", ""},
    {kMaskValueBuffer, "@h.{}.attn.masked_bias", ""},
};

// A GPT-2 under the names that llama has.
constexpr DecoderName kGptrsGptNames[] = {
    {kPositions, "@embed_positions"},
};

// gpt.rs's checkpoints.
constexpr DecoderName kGptNames[] = {
    {kPositions, "pos_embeddings", ""},
    {kFinalNorm, "final_ln", ".gamma", ".beta"},
    {kAttentionNorm, "blocks.{}.ln_1", ".gamma", ".beta"},
    {kFeedNorm, "blocks.{}.ln_2", ".gamma", ".beta"},
    {kUp, "blocks.{}.feed_forward.", "w_in", "b_in"},
    {kDown, "blocks.{}.feed_forward.", "w_out", "b_out"},
};

constexpr DecoderName kMinistralNames[] = {
    {kFinalNorm, "final_norm", ".gamma"},      {kAttentionNorm, "blocks.{}.norm_1", ".gamma"},
    {kFeedNorm, "blocks.{}.norm_2", ".gamma"}, {kGate, "blocks.{}.feed_forward.", "w_gate"},
    {kUp, "blocks.{}.feed_forward.", "w_up"},  {kDown, "blocks.{}.feed_forward.", "w_down"},
};

constexpr DecoderName kCheckpointNames[] = {
    {kEmbedding, "tok_embeddings"},
    {kHead, "lm_head", ""},
    {kQkv, "blocks.{}.attention.", "w_qkv", "b_qkv"},
    {kOutput, "blocks.{}.attention.", "w_out", "b_out"},
};

constexpr DecoderName kGgufNames[] = {
    {kEmbedding, "token_embd"},
    {kPositions, "position_embd"},
    {kFinalNorm, "output_norm"},
    {kHead, "output"},
    {kAttentionNorm, "blk.{}.attn_norm"},
    {kQuery, "blk.{}.attn_q"},
    {kKey, "blk.{}.attn_k"},
    {kValue, "blk.{}.attn_v"},
    {kQkv, "blk.{}.attn_qkv"},
    {kQueryNorm, "blk.{}.attn_q_norm"},
    {kKeyNorm, "blk.{}.attn_k_norm"},
    {kOutput, "blk.{}.attn_output"},
    {kAttentionPostNorm, "blk.{}.post_attention_norm"},
    {kFeedNorm, "blk.{}.ffn_norm"},
    {kGate, "blk.{}.ffn_gate"},
    {kUp, "blk.{}.ffn_up"},
    {kGateUp, "blk.{}.ffn_up"},
    {kDown, "blk.{}.ffn_down"},
    {kFeedPostNorm, "blk.{}.post_ffw_norm"},
    {kRouter, "blk.{}.ffn_gate_inp"},
    {kExpertGate, "blk.{}.ffn_gate.{}"},
    {kExpertUp, "blk.{}.ffn_up.{}"},
    {kExpertDown, "blk.{}.ffn_down.{}"},
    {kStackedGate, "blk.{}.ffn_gate_exps"},
    {kStackedUp, "blk.{}.ffn_up_exps"},
    {kStackedGateUp, "blk.{}.ffn_gate_up_exps"},
    {kStackedDown, "blk.{}.ffn_down_exps"},
    {kSharedGate, "blk.{}.ffn_gate_shexp"},
    {kSharedUp, "blk.{}.ffn_up_shexp"},
    {kSharedDown, "blk.{}.ffn_down_shexp"},
    {kSharedSwitch, "blk.{}.ffn_gate_inp_shexp"},
    {kRopeDivisors, "rope_freqs"},
    {kRopeLongDivisors, "rope_factors_long"},
    {kRopeShortDivisors, "rope_factors_short"},
};

constexpr DecoderName kBertNames[] = {
    {kEmbedding, "@embeddings.word_embeddings"},
    {kPositions, "@embeddings.position_embeddings"},
    {kTokenTypes, "@embeddings.token_type_embeddings"},
    {kEmbeddingNorm, "@embeddings.LayerNorm"},
    {kQuery, "@encoder.layer.{}.attention.self.query"},
    {kKey, "@encoder.layer.{}.attention.self.key"},
    {kValue, "@encoder.layer.{}.attention.self.value"},
    {kOutput, "@encoder.layer.{}.attention.output.dense"},
    {kAttentionPostNorm, "@encoder.layer.{}.attention.output.LayerNorm"},
    {kUp, "@encoder.layer.{}.intermediate.dense"},
    {kDown, "@encoder.layer.{}.output.dense"},
    {kFeedPostNorm, "@encoder.layer.{}.output.LayerNorm"},
};

constexpr DecoderName kBertGgufNames[] = {
    {kTokenTypes, "token_types"},
    {kEmbeddingNorm, "token_embd_norm"},
    {kAttentionPostNorm, "blk.{}.attn_output_norm"},
    {kFeedPostNorm, "blk.{}.layer_output_norm"},
};

// "language_model.model." is the model, "language_model." what holds it and its output matrix.
std::string_view holder_of(std::string_view prefix) {
  return prefix == "language_model.model." ? prefix.substr(0, prefix.find('.') + 1) : "";
}

// Takes `part` from the front of `text`.
bool take_front(std::string_view& text, std::string_view part) {
  if (!text.starts_with(part)) return false;
  text.remove_prefix(part.size());
  return true;
}

// Takes a number as decoder_param_name writes it.
bool take_number(std::string_view& text, uint64_t& number) {
  constexpr size_t kMostDigits = 18;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > kMostDigits || (digits > 1 && text[0] == '0')) return false;
  number = 0;
  for (const char digit : text.substr(0, digits)) number = number * 10 + static_cast<uint64_t>(digit - '0');
  text.remove_prefix(digits);
  return true;
}

std::optional<FoundDecoderName> match_name(const DecoderName& name, std::string_view prefix, std::string_view param) {
  FoundDecoderName found{.name = &name};
  bool has_layer = false;
  for (size_t i = 0; i < name.pattern.size(); ++i) {
    const char c = name.pattern[i];
    bool fits = true;
    if (c == '@') fits = take_front(param, prefix);
    else if (c == '^') fits = take_front(param, holder_of(prefix));
    else if (c == '{') fits = take_number(param, has_layer ? found.expert : found.layer);
    else if (c == '}') has_layer = true;
    else fits = take_front(param, name.pattern.substr(i, 1));
    if (!fits) return std::nullopt;
  }
  found.ending = param;
  const bool is_bias = param == name.bias && !name.weight.empty();
  return is_bias || param == name.weight ? std::optional(found) : std::nullopt;
}

}  // namespace

const DecoderNaming kHuggingFaceNaming = {kHuggingFacePrefixes, {}, kHuggingFaceNames};
const DecoderNaming kGemmaNaming = {kHuggingFacePrefixes, kGemmaNames, kHuggingFaceNames};
const DecoderNaming kMixtralNaming = {kHuggingFacePrefixes, kMixtralNames, kHuggingFaceNames};
const DecoderNaming kGpt2Naming = {kGpt2Prefixes, {}, kGpt2Names};
const DecoderNaming kGptrsGptNaming = {kHuggingFacePrefixes, kGptrsGptNames, kHuggingFaceNames};
const DecoderNaming kGptNaming = {kNoPrefix, kGptNames, kCheckpointNames};
const DecoderNaming kMinistralNaming = {kNoPrefix, kMinistralNames, kCheckpointNames};
const DecoderNaming kGgufNaming = {kNoPrefix, {}, kGgufNames};
const DecoderNaming kBertNaming = {kBertPrefixes, {}, kBertNames};
const DecoderNaming kBertGgufNaming = {kNoPrefix, kBertGgufNames, kGgufNames};

const DecoderName* DecoderNaming::find(DecoderPart part) const {
  for (const std::span<const DecoderName> names : {own, shared}) {
    const auto found = std::ranges::find(names, part, &DecoderName::part);
    if (found != names.end()) return &*found;
  }
  return nullptr;
}

std::string decoder_param_name(const DecoderName& name, const DecoderPlace& place, std::string_view ending) {
  std::string text;
  bool has_layer = false;
  for (size_t i = 0; i < name.pattern.size(); ++i) {
    const char c = name.pattern[i];
    if (c == '@') text += place.prefix;
    else if (c == '^') text += holder_of(place.prefix);
    else if (c == '{') text += std::to_string(has_layer ? place.expert : place.layer);
    else if (c == '}') has_layer = true;
    else text += c;
  }
  return text.append(ending);
}

std::optional<FoundDecoderName> find_decoder_name(const DecoderNaming& naming, std::string_view prefix,
                                                  std::string_view param) {
  for (const std::span<const DecoderName> names : {naming.own, naming.shared}) {
    for (const DecoderName& name : names) {
      const bool counts = naming.find(name.part) == &name;
      const auto found = counts ? match_name(name, prefix, param) : std::nullopt;
      if (found) return found;
    }
  }
  return std::nullopt;
}

}  // namespace ballast
