// Models of gpt.rs under the names that Hugging Face's transformers and torchvision use, and back.
//
// The names, and what happens to each tensor, are data: huggingface_table.cc. Payloads are changed while they are
// drawn; at most one tensor, or the three that make one, is in memory at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/write.h"

namespace ballast {

struct HuggingFaceOptions {
  // Text of a config.json, or of a GPTRSCHK config.
  std::optional<std::string> config_text;
  std::string config_name = "config.json";  // for errors
  // The text was asked for; otherwise it only stands in where the plan carries no config of gpt.rs itself.
  bool config_was_chosen = false;
  // To Hugging Face: a model that has no config.json over there is an error.
  bool config_wanted = false;
  // To gpt.rs: the config also says which GELU the model was made with, where that is not the one of gpt.rs. It ignores
  // that; Ballast's runtime obeys it.
  bool name_gelu = false;
};

// How many tensors one row of the table stood for.
struct MappedNames {
  std::string gptrs;
  std::string huggingface;  // several joined by ", "
  std::string change;       // "copied", "transposed", ...
  size_t tensors = 0;       // on the side of gpt.rs
};

struct HuggingFaceReport {
  std::string kind;                  // gpt.rs's name for it
  std::vector<MappedNames> mapped;   // rows that were used, in the order of the table
  std::vector<std::string> ignored;  // buffers without weights that were left out
  bool tied = false;                 // the output matrix is the transposed embedding, and over there not stored
  std::string config_text;           // to Hugging Face: config.json, "" where there is none; back: the GPTRSCHK config
};

// From a plan over a GPTRSCHK file. The output matrix is compared with the embedding, which reads both.
// Convolutions of resnet34 and mobilenet_v2 get batch norms that change nothing: see docs/command.md.
Result<HuggingFaceReport> gptrs_to_huggingface(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes);

// The kind of model is recognised from the names. Batch norms are folded into their convolutions as gpt.rs's exporter
// does, in f32 and with the same roundings. A tensor that belongs to no row of the table is an error that names it.
Result<HuggingFaceReport> huggingface_to_gptrs(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes);

}  // namespace ballast
