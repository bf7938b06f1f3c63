// config.json of transformers, written from what a GGUF file says.
#pragma once

#include <optional>
#include <string>

#include "ballast/exchange/folder_tensors.h"
#include "ballast/models/config/bert_config.h"
#include "ballast/models/decoder_description.h"
#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

// What config.json says beside the model's own description.
struct FolderFacts {
  const FolderTensors& tensors;
  DType dtype = DType::kF32;
  TokenMarks marks;
};

// A row of the table: transformers' class for a model.
struct FolderFamily;

// The class that computes what this decoder does. kUnsupported where there is none.
Result<const FolderFamily*> find_folder_family(const DecoderDescription& d);
FolderLayout folder_layout(const FolderFamily& family);

// kUnsupported, naming what, where the class has no setting for something that the file says. `archive` holds the
// tables of rope that become settings.
Result<std::string> folder_config(const FolderFamily& family, const DecoderDescription& d, const FolderFacts& facts,
                                  const Archive& archive);
std::string folder_bert_config(const BertDescription& d, const FolderFacts& facts);

}  // namespace ballast
