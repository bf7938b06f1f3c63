#include "ballast/exchange/gguf_gptrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ballast/base/json.h"
#include "ballast/edit/rename.h"
#include "ballast/edit/transpose.h"
#include "ballast/models/config_reader.h"

namespace ballast {

namespace {

struct GptrsName {
  std::string_view own;  // behind "blocks.N." where it belongs to a layer
  std::string_view huggingface;
};
constexpr GptrsName kEndNames[] = {
    {"tok_embeddings.weight", "wte.weight"}, {"pos_embeddings", "wpe.weight"}, {"final_ln.gamma", "ln_f.weight"},
    {"final_ln.beta", "ln_f.bias"},          {"lm_head", "lm_head.weight"},
};
constexpr GptrsName kBlockNames[] = {
    {"attention.w_qkv", "attn.c_attn.weight"},
    {"attention.b_qkv", "attn.c_attn.bias"},
    {"attention.w_out", "attn.c_proj.weight"},
    {"attention.b_out", "attn.c_proj.bias"},
    {"feed_forward.w_in", "mlp.c_fc.weight"},
    {"feed_forward.b_in", "mlp.c_fc.bias"},
    {"feed_forward.w_out", "mlp.c_proj.weight"},
    {"feed_forward.b_out", "mlp.c_proj.bias"},
    {"ln_1.gamma", "ln_1.weight"},
    {"ln_1.beta", "ln_1.bias"},
    {"ln_2.gamma", "ln_2.weight"},
    {"ln_2.beta", "ln_2.bias"},
};

// Names that are none of the model's stay as they are.
std::string gpt2_name(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  const size_t dot = name.starts_with(kBlocks) ? name.find('.', kBlocks.size()) : std::string::npos;
  if (dot == std::string::npos) {
    const auto* found = std::ranges::find(kEndNames, name, &GptrsName::own);
    return found == std::end(kEndNames) ? name : std::string(found->huggingface);
  }
  const auto* found = std::ranges::find(kBlockNames, std::string_view(name).substr(dot + 1), &GptrsName::own);
  if (found == std::end(kBlockNames)) return name;
  return fmt::format("h.{}.{}", name.substr(kBlocks.size(), dot - kBlocks.size()), found->huggingface);
}

// The output matrix is [in, out] too, and nowhere else is it so.
Status rename_to_gpt2(WritePlan& plan) {
  std::vector<std::string> names;
  const auto gate = std::make_shared<MemoryGate>();
  for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
    const TensorInfo& tensor = plan.description.tensors[i];
    names.push_back(gpt2_name(tensor.name));
    if (tensor.name == "lm_head" && can_transpose(tensor)) transpose_tensor(plan, i, gate);
  }
  BALLAST_TRY(const size_t changed, set_names(plan, std::move(names)));
  static_cast<void>(changed);
  return {};
}

}  // namespace

Result<GptrsAsGpt2> gptrs_as_gpt2(const std::string& config) {
  BALLAST_TRY(const ConfigReader outer, ConfigReader::parse("gpt.rs", config));
  BALLAST_TRY(const std::string kind, outer.text("kind"));
  if (kind != "gpt") {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("llama.cpp has no architecture for gpt.rs's {} models, so no GGUF file of one would "
                                  "run. As a gpt.rs checkpoint and as safetensors the model runs",
                                  kind));
  }
  BALLAST_TRY(const ConfigReader fields, outer.object("config"));
  BALLAST_TRY(const uint64_t vocab, fields.count("vocab_size"));
  BALLAST_TRY(const uint64_t context, fields.count("context_length"));
  BALLAST_TRY(const uint64_t width, fields.count("embed_dim"));
  BALLAST_TRY(const uint64_t layers, fields.count("num_layers"));
  BALLAST_TRY(const uint64_t heads, fields.count("num_heads"));
  BALLAST_TRY(const uint64_t ratio, fields.count("mlp_ratio"));
  BALLAST_TRY(const std::string gelu, fields.text_or("gelu", "erf"));
  if (ratio != 0 && width > std::numeric_limits<uint64_t>::max() / ratio)
    return fields.error("mlp_ratio", "is too large");
  JsonWriter json;
  json.begin_object().key("model_type").string("gpt2").key("vocab_size").number(vocab);
  json.key("n_positions").number(context).key("n_embd").number(width).key("n_layer").number(layers);
  json.key("n_head").number(heads).key("n_inner").number(width * ratio).key("layer_norm_epsilon").raw("1e-05");
  json.key("activation_function").string(gelu == "tanh" ? "gelu_new" : "gelu").end_object();
  return GptrsAsGpt2{json.take(), [](WritePlan& plan, std::vector<std::string>&) { return rename_to_gpt2(plan); }};
}

}  // namespace ballast
