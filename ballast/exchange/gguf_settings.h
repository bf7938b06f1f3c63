// What a Hugging Face config.json says, in the keys of llama.cpp's converter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/exchange/gguf_tensors.h"
#include "ballast/formats/description.h"

namespace ballast {

inline constexpr std::string_view kGgufFileType = "general.file_type";

struct GgufModel {
  std::string architecture;             // "llama"
  uint64_t vocab = 0;                   // rows of the embedding
  std::vector<MetaEntry> early{};       // what the converter writes in front of everything general
  std::vector<MetaEntry> vocabulary{};  // what stands in front of the vocabulary
  std::vector<MetaEntry> settings{};    // the architecture's keys, and among them kGgufFileType, which tensors decide
  GgufTensorRules tensors{};
  std::vector<std::string> notes{};
};

// kUnsupported, with the reason, where llama.cpp has no such architecture, or its files cannot say what the config
// says: what is written is read back and compared. `sentence`: ModelFolder::sentence.
Result<GgufModel> describe_gguf_model(std::string_view config_json, const std::optional<std::string>& sentence);

// Keys and values in order, with the types that the converter gives them.
class GgufEntries {
 public:
  explicit GgufEntries(std::string architecture) : architecture_(std::move(architecture)) {}

  // Keys below the architecture's name.
  void count(std::string_view key, uint64_t value) { put(own(key), value); }
  void real(std::string_view key, double value) { put(own(key), static_cast<double>(static_cast<float>(value))); }
  void text(std::string_view key, std::string value) { put(own(key), std::move(value)); }
  void truth(std::string_view key, bool value) { put(own(key), value); }
  void truths(std::string_view key, const std::vector<bool>& values);
  // Other keys. A key that is there already keeps its place and gets the new value.
  void put(std::string key, MetaValue value);

  std::vector<MetaEntry> take() { return std::move(entries_); }
  const std::vector<MetaEntry>& entries() const { return entries_; }

 private:
  std::string own(std::string_view key) const { return architecture_ + "." + std::string(key); }

  std::string architecture_;
  std::vector<MetaEntry> entries_;
};

}  // namespace ballast
