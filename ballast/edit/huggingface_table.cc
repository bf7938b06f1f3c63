#include "ballast/edit/huggingface_table.h"

#include <algorithm>

namespace ballast {

namespace {

using enum NameChange;

// ---------------------------------------------------------------- GPT-2: Conv1D weights are [in, out] as in gpt.rs

constexpr NameStyle kGptStyles[] = {{"transformer.", ""}, {"", ""}};

constexpr NameRule kGptRules[] = {
    {"tok_embeddings.weight", {"@wte.weight"}},
    {"pos_embeddings", {"@wpe.weight"}},
    {"blocks.{}.ln_1.gamma", {"@h.{}.ln_1.weight"}},
    {"blocks.{}.ln_1.beta", {"@h.{}.ln_1.bias"}},
    {"blocks.{}.attention.w_qkv", {"@h.{}.attn.c_attn.weight"}},
    {"blocks.{}.attention.b_qkv", {"@h.{}.attn.c_attn.bias"}},
    {"blocks.{}.attention.w_out", {"@h.{}.attn.c_proj.weight"}},
    {"blocks.{}.attention.b_out", {"@h.{}.attn.c_proj.bias"}},
    {"blocks.{}.ln_2.gamma", {"@h.{}.ln_2.weight"}},
    {"blocks.{}.ln_2.beta", {"@h.{}.ln_2.bias"}},
    {"blocks.{}.feed_forward.w_in", {"@h.{}.mlp.c_fc.weight"}},
    {"blocks.{}.feed_forward.b_in", {"@h.{}.mlp.c_fc.bias"}},
    {"blocks.{}.feed_forward.w_out", {"@h.{}.mlp.c_proj.weight"}},
    {"blocks.{}.feed_forward.b_out", {"@h.{}.mlp.c_proj.bias"}},
    {"final_ln.gamma", {"@ln_f.weight"}},
    {"final_ln.beta", {"@ln_f.bias"}},
    {"lm_head", {"lm_head.weight"}, kHead, "tok_embeddings.weight"},
};

constexpr std::string_view kGptIgnored[] = {"@h.{}.attn.bias", "@h.{}.attn.masked_bias"};  // the causal mask

// ---------------------------------------------------------------- Ministral: the names of the Llama family

constexpr NameStyle kMinistralStyles[] = {
    {"model.", ""}, {"model.language_model.", ""}, {"language_model.model.", "language_model."}};

constexpr NameRule kMinistralRules[] = {
    {"tok_embeddings.weight", {"@embed_tokens.weight"}},
    {"blocks.{}.norm_1.gamma", {"@layers.{}.input_layernorm.weight"}},
    {"blocks.{}.attention.w_qkv",
     {"@layers.{}.self_attn.q_proj.weight", "@layers.{}.self_attn.k_proj.weight", "@layers.{}.self_attn.v_proj.weight"},
     kJoin,
     "blocks.{}.attention.w_out"},
    {"blocks.{}.attention.w_out", {"@layers.{}.self_attn.o_proj.weight"}, kTranspose},
    {"blocks.{}.norm_2.gamma", {"@layers.{}.post_attention_layernorm.weight"}},
    {"blocks.{}.feed_forward.w_gate", {"@layers.{}.mlp.gate_proj.weight"}, kTranspose},
    {"blocks.{}.feed_forward.w_up", {"@layers.{}.mlp.up_proj.weight"}, kTranspose},
    {"blocks.{}.feed_forward.w_down", {"@layers.{}.mlp.down_proj.weight"}, kTranspose},
    {"final_norm.gamma", {"@norm.weight"}},
    {"lm_head", {"lm_head.weight"}, kHead, "tok_embeddings.weight"},
};

constexpr std::string_view kMinistralIgnored[] = {"@layers.{}.self_attn.rotary_emb.inv_freq"};

// ---------------------------------------------------------------- torchvision

constexpr NameStyle kPlainStyle[] = {{"", ""}};

constexpr NameRule kResnet34Rules[] = {
    {"conv1", {"conv1", "bn1"}, kFold},
    {"layer{}.{}.conv1", {"layer{}.{}.conv1", "layer{}.{}.bn1"}, kFold},
    {"layer{}.{}.conv2", {"layer{}.{}.conv2", "layer{}.{}.bn2"}, kFold},
    {"layer{}.0.downsample", {"layer{}.0.downsample.0", "layer{}.0.downsample.1"}, kFold, {}, /*optional=*/true},
    {"fc.weight", {"fc.weight"}, kLinear, "fc.bias"},
    {"fc.bias", {"fc.bias"}},
};

// The first block has no expansion, so that its layers count differently over there.
constexpr NameRule kMobilenetV2Rules[] = {
    {"stem", {"features.0.0", "features.0.1"}, kFold},
    {"blocks.0.depthwise", {"features.1.conv.0.0", "features.1.conv.0.1"}, kFold},
    {"blocks.0.project", {"features.1.conv.1", "features.1.conv.2"}, kFold},
    {"blocks.{}.expand", {"features.{+1}.conv.0.0", "features.{+1}.conv.0.1"}, kFold},
    {"blocks.{}.depthwise", {"features.{+1}.conv.1.0", "features.{+1}.conv.1.1"}, kFold},
    {"blocks.{}.project", {"features.{+1}.conv.2", "features.{+1}.conv.3"}, kFold},
    {"head", {"features.18.0", "features.18.1"}, kFold},
    {"classifier.weight", {"classifier.1.weight"}, kLinear, "classifier.bias"},
    {"classifier.bias", {"classifier.1.bias"}},
};

constexpr NamedModel kKinds[] = {
    {.name = "gpt", .described = "GPT-2", .styles = kGptStyles, .rules = kGptRules, .ignored = kGptIgnored},
    {.name = "ministral",
     .described = "Ministral, Mistral, Llama",
     .styles = kMinistralStyles,
     .rules = kMinistralRules,
     .ignored = kMinistralIgnored},
    {.name = "resnet34",
     .described = "torchvision's resnet34",
     .styles = kPlainStyle,
     .rules = kResnet34Rules,
     .ignored = {},
     .tensors = 74},
    {.name = "mobilenet_v2",
     .described = "torchvision's mobilenet_v2",
     .styles = kPlainStyle,
     .rules = kMobilenetV2Rules,
     .ignored = {},
     .first_block = 1,
     .tensors = 106},
};

}  // namespace

std::span<const NamedModel> all_named_models() { return kKinds; }

const NamedModel* find_named_model(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &NamedModel::name);
  return found == std::end(kKinds) ? nullptr : found;
}

}  // namespace ballast
