#include "tests/support/recorded_bert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/base/json.h"
#include "tests/support/json_path.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

std::string bert_path() { return test_file_path("hf/bert"); }

RecordedTensor bert_tensor(const std::string& name) { return recorded_tensor("../hf/bert/expected.safetensors", name); }

const std::vector<RecordedEncoding>& recorded_encodings() {
  static const std::vector<RecordedEncoding> all = [] {
    const std::string text = read_text_file(bert_path() + "/expected.json");
    std::vector<RecordedEncoding> found;
    for (size_t i = 0; !json_at(text, fmt::format("inputs/{}", i)).empty(); ++i) {
      const auto name = [&](const char* key) {
        return json_string(json_at(text, fmt::format("inputs/{}/{}", i, key)));
      };
      const std::string list = json_at(text, fmt::format("inputs/{}/ids", i));
      JsonReader reader(list, "ids");
      const auto ids = reader.read_u64_array();
      EXPECT_TRUE(ids);
      found.push_back({{ids->begin(), ids->end()},
                       name("last_hidden_state"),
                       name("hidden"),
                       name("mean_pooled"),
                       name("mean_pooled_unit"),
                       name("cls")});
    }
    return found;
  }();
  return all;
}

void copy_bert(const TempFolder& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(bert_path() + "/" + name, folder.path(name));
  }
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories(std::filesystem::path(folder.path(name)).parent_path());
    folder.write(name, text);
  }
}

std::pair<std::string, std::string> bert_tokenizer() {
  return {"tokenizer.json", R"({"version": "1.0", "truncation": {"max_length": 4, "strategy": "LongestFirst",
    "stride": 0}, "padding": null, "added_tokens": [
      {"id": 1, "content": "[UNK]", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false},
      {"id": 2, "content": "[CLS]", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false},
      {"id": 3, "content": "[SEP]", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
      "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 100,
      "vocab": {"[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "ship": 20, "boat": 21, "##s": 22, "stone": 90, "[": 30, "]": 31,
        "sep": 32}}})"};
}

std::vector<std::pair<std::string, std::string>> sentence_files(const std::string& pooling_config,
                                                                uint64_t max_length) {
  return {
      {"modules.json", R"([
             {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
             {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
             {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])"},
      {"1_Pooling/config.json", pooling_config},
      {"sentence_bert_config.json", fmt::format(R"({{"max_seq_length": {}, "do_lower_case": false}})", max_length)}};
}

}  // namespace ballast::testing
