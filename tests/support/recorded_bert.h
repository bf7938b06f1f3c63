// A tiny encoder of BERT's kind, and what transformers computed with it: tests/data/hf/bert.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/recorded_models.h"

namespace ballast::testing {

struct RecordedEncoding {
  std::vector<TokenId> ids;
  // Names of tensors; empty: not recorded.
  std::string states;  // [t, width]
  std::string hidden;  // [layers + 1, t, width]
  std::string mean, unit, first;
};

std::string bert_path();  // of the folder
const std::vector<RecordedEncoding>& recorded_encodings();
RecordedTensor bert_tensor(const std::string& name);

// The model in a folder of its own, with more files beside it: name and text.
void copy_bert(const TempFolder& folder, const std::vector<std::pair<std::string, std::string>>& files);
// tokenizer.json: a few words that are tokens of the model.
std::pair<std::string, std::string> bert_tokenizer();
// modules.json, 1_Pooling/config.json and sentence_bert_config.json, as sentence-transformers writes them.
std::vector<std::pair<std::string, std::string>> sentence_files(const std::string& pooling_config,
                                                                uint64_t max_length = 64);

}  // namespace ballast::testing
