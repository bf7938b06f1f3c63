#include "tests/support/default_model_gguf.h"

#include <gtest/gtest.h>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/edit/transpose.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

struct Renamed {
  std::string_view from;  // of a block: behind its number
  std::string_view to;
  bool transposed = false;
};
constexpr Renamed kWhole[] = {{"tok_embeddings.weight", "token_embd.weight"},
                              {"pos_embeddings", "position_embd.weight"},
                              {"final_ln.gamma", "output_norm.weight"},
                              {"final_ln.beta", "output_norm.bias"},
                              {"lm_head", "output.weight", true}};
constexpr Renamed kOfBlocks[] = {{"attention.w_qkv", "attn_qkv.weight", true},
                                 {"attention.b_qkv", "attn_qkv.bias"},
                                 {"attention.w_out", "attn_output.weight", true},
                                 {"attention.b_out", "attn_output.bias"},
                                 {"feed_forward.w_in", "ffn_up.weight", true},
                                 {"feed_forward.b_in", "ffn_up.bias"},
                                 {"feed_forward.w_out", "ffn_down.weight", true},
                                 {"feed_forward.b_out", "ffn_down.bias"},
                                 {"ln_1.gamma", "attn_norm.weight"},
                                 {"ln_1.beta", "attn_norm.bias"},
                                 {"ln_2.gamma", "ffn_norm.weight"},
                                 {"ln_2.beta", "ffn_norm.bias"}};

const Renamed* find_renamed(std::span<const Renamed> rows, std::string_view name) {
  for (const Renamed& row : rows) {
    if (row.from == name) return &row;
  }
  ADD_FAILURE() << "unknown parameter " << name;
  return nullptr;
}

void rename_and_turn(WritePlan& plan) {
  const auto gate = std::make_shared<MemoryGate>(uint64_t{64} << 20);
  for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
    TensorInfo& info = plan.description.tensors[i];
    info.requires_grad.reset();
    info.param_id.reset();
    info.set_stored_form({});
    constexpr std::string_view kBlocks = "blocks.";
    const bool in_block = info.name.starts_with(kBlocks);
    const size_t behind = in_block ? info.name.find('.', kBlocks.size()) + 1 : 0;
    const Renamed* row = find_renamed(in_block ? std::span<const Renamed>(kOfBlocks) : std::span<const Renamed>(kWhole),
                                      std::string_view(info.name).substr(behind));
    if (row == nullptr) return;
    info.name =
        (in_block ? "blk." + info.name.substr(kBlocks.size(), behind - kBlocks.size()) : "") + std::string(row->to);
    if (row->transposed) transpose_tensor(plan, i, gate);
  }
}

std::vector<MetaEntry> vocabulary() {
  const std::string file = read_text_file(test_file_path("../../models/default/tokenizer.json"));
  const auto members = json_members(file, "vocab");
  std::vector<std::string> tokens(members.size());
  for (const auto& [token, id] : members) tokens.at(std::stoull(id)) = token;
  std::vector<std::string> merges;
  for (;;) {
    const std::string at = "merges/" + std::to_string(merges.size()) + "/";
    const std::string left = json_string(json_at(file, at + "0"));
    if (left.empty()) break;
    merges.push_back(left + " " + json_string(json_at(file, at + "1")));
  }
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = 3;  // <|endoftext|>
  const auto texts = [](const std::vector<std::string>& all) {
    return MetaArray::of_texts(std::vector<std::string_view>(all.begin(), all.end()));
  };
  return {{"tokenizer.ggml.model", std::string("gpt2")}, {"tokenizer.ggml.pre", std::string("gpt-2")},
          {"tokenizer.ggml.tokens", texts(tokens)},      {"tokenizer.ggml.token_type", MetaArray::of(types)},
          {"tokenizer.ggml.merges", texts(merges)},      {"tokenizer.ggml.eos_token_id", uint64_t{0}}};
}

}  // namespace

void write_default_model_gguf(const std::string& path) {
  const auto archive = open_archive(default_model_file());
  ASSERT_TRUE(archive) << archive.error().message;
  WritePlan plan = make_plan(*archive);
  rename_and_turn(plan);
  plan.description.config.reset();
  plan.description.stored_form.clear();
  plan.description.metadata = {{"general.architecture", std::string("gpt2")},
                               {"gpt2.context_length", uint64_t{256}},
                               {"gpt2.embedding_length", uint64_t{192}},
                               {"gpt2.block_count", uint64_t{6}},
                               {"gpt2.feed_forward_length", uint64_t{768}},
                               {"gpt2.attention.head_count", uint64_t{6}},
                               {"gpt2.attention.layer_norm_epsilon", static_cast<double>(1e-5F)}};
  for (MetaEntry& entry : vocabulary()) plan.description.metadata.push_back(std::move(entry));
  const auto written = write_archive(path, *find_format("gguf"), plan);
  ASSERT_TRUE(written) << written.error().message;
}

}  // namespace ballast::testing
