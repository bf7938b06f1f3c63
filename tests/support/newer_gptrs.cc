#include "tests/support/newer_gptrs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ballast/archive/open.h"
#include "ballast/base/bytes.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

namespace {

constexpr uint64_t kAlignment = 64;

uint64_t up_to_alignment(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::string index_of(const std::vector<NewerGptrsTensor>& tensors, uint64_t end) {
  std::string index;
  append_le<uint32_t>(index, static_cast<uint32_t>(tensors.size()));
  for (const NewerGptrsTensor& tensor : tensors) {
    append_le<uint32_t>(index, static_cast<uint32_t>(tensor.name.size()));
    index += tensor.name + std::string(16, '\0');
    append_le<uint32_t>(index, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) append_le<uint64_t>(index, dim);
    append_le<uint32_t>(index, tensor.dtype_tag);
    append_le<uint8_t>(index, 0);
    const uint64_t begin = up_to_alignment(end);
    append_le<uint64_t>(index, begin);
    append_le<uint64_t>(index, tensor.payload.size());
    end = begin + tensor.payload.size();
  }
  return index;
}

using Tensors = std::map<std::string, NewerGptrsTensor>;

Tensors read_folder_tensors(const Archive& archive) {
  Tensors tensors;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const TensorInfo& info = archive.tensors()[i];
    const auto payload = archive.payload(i);
    EXPECT_TRUE(payload) << info.name;
    const uint32_t tag = info.dtype == DType::kBF16 ? 2 : info.dtype == DType::kF16 ? 1 : 0;
    tensors[info.name] = {info.name,
                          tag,
                          {info.shape.dims().begin(), info.shape.dims().end()},
                          payload ? std::string(as_text(payload->bytes())) : ""};
  }
  return tensors;
}

// [in, columns] of f32: columns first to last, as [columns, in].
NewerGptrsTensor transposed(const NewerGptrsTensor& tensor, std::string name, uint64_t first, uint64_t count) {
  const uint64_t rows = tensor.dims[0], columns = tensor.dims[1];
  NewerGptrsTensor out{std::move(name), tensor.dtype_tag, {count, rows}, {}};
  for (uint64_t column = first; column < first + count; ++column) {
    for (uint64_t row = 0; row < rows; ++row) out.payload += tensor.payload.substr((row * columns + column) * 4, 4);
  }
  return out;
}

NewerGptrsTensor renamed(NewerGptrsTensor tensor, std::string name) {
  tensor.name = std::move(name);
  return tensor;
}

// What gpt.rs's exporter makes of a GPT-2: the names of llama, one matrix per projection.
Tensors as_newer_gpt(const Tensors& gpt2) {
  Tensors out;
  const auto add = [&](NewerGptrsTensor tensor) { out[tensor.name] = std::move(tensor); };
  const std::string root = gpt2.contains("transformer.wte.weight") ? "transformer." : "";
  const auto from = [&](const std::string& name) { return gpt2.at(root + name); };
  add(renamed(from("wte.weight"), "model.embed_tokens.weight"));
  add(renamed(from("wte.weight"), "lm_head.weight"));
  add(renamed(from("wpe.weight"), "model.embed_positions.weight"));
  for (const std::string end : {".weight", ".bias"}) add(renamed(from("ln_f" + end), "model.norm" + end));
  for (int i = 0; gpt2.contains(root + "h." + std::to_string(i) + ".ln_1.weight"); ++i) {
    const std::string old = "h." + std::to_string(i) + ".", layer = "model.layers." + std::to_string(i) + ".";
    for (const std::string end : {".weight", ".bias"}) {
      add(renamed(from(old + "ln_1" + end), layer + "input_layernorm" + end));
      add(renamed(from(old + "ln_2" + end), layer + "post_attention_layernorm" + end));
    }
    const NewerGptrsTensor qkv = from(old + "attn.c_attn.weight"), bias = from(old + "attn.c_attn.bias");
    const uint64_t width = qkv.dims[0];
    uint64_t part = 0;
    for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      add(transposed(qkv, layer + name + ".weight", part * width, width));
      add({layer + name + ".bias", 0, {width}, bias.payload.substr(part * width * 4, width * 4)});
      ++part;
    }
    for (const auto& [theirs, ours] :
         {std::pair("attn.c_proj", "self_attn.o_proj"), std::pair("mlp.c_fc", "mlp.up_proj"),
          std::pair("mlp.c_proj", "mlp.down_proj")}) {
      const NewerGptrsTensor matrix = from(old + theirs + ".weight");
      add(transposed(matrix, layer + ours + ".weight", 0, matrix.dims[1]));
      add(renamed(from(old + theirs + ".bias"), layer + ours + ".bias"));
    }
  }
  return out;
}

}  // namespace

std::string build_newer_gptrs(const std::string& config, const std::vector<NewerGptrsTensor>& tensors) {
  std::string file = "GPTRSCHK";
  append_le<uint32_t>(file, 2);
  append_le<uint32_t>(file, static_cast<uint32_t>(config.size()));
  file += config;
  const uint64_t data = file.size() + 4 + index_of(tensors, 0).size();
  const std::string index = index_of(tensors, data);
  append_le<uint32_t>(file, static_cast<uint32_t>(index.size()));
  file += index;
  for (const NewerGptrsTensor& tensor : tensors) {
    file.resize(up_to_alignment(file.size()), '\0');
    file += tensor.payload;
  }
  return file;
}

std::string newer_gptrs_of(const std::string& folder, const std::string& kind) {
  const auto archive = open_archive(folder);
  EXPECT_TRUE(archive) << folder;
  Tensors tensors = read_folder_tensors(*archive);
  if (kind == "gpt") tensors = as_newer_gpt(tensors);
  // Always written, tied or not.
  if (!tensors.contains("lm_head.weight")) {
    tensors["lm_head.weight"] = renamed(tensors.at("model.embed_tokens.weight"), "lm_head.weight");
  }
  std::vector<NewerGptrsTensor> sorted;
  for (auto& [name, tensor] : tensors) sorted.push_back(std::move(tensor));
  const std::string config = read_text_file(folder + "/config.json");
  return build_newer_gptrs(R"({"kind":")" + kind + R"(","config":)" + config + R"(,"eos_token_ids":[2,7]})", sorted);
}

}  // namespace ballast::testing
