// Models of gpt.rs under the names that Hugging Face's transformers and torchvision use, and back.
//
// The names, and what happens to each tensor, are data: huggingface_table.cc. Payloads are changed while they are
// drawn; at most one tensor, or the three that make one, is in memory at a time.
#pragma once

#include <string>
#include <vector>

#include "ballast/edit/adapt.h"

namespace ballast {

// From a plan over a GPTRSCHK file. The output matrix is compared with the embedding, which reads both.
// Convolutions of resnet34 and mobilenet_v2 get batch norms that change nothing: see docs/command.md.
Result<HuggingFaceReport> gptrs_to_huggingface(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes);

// The kind of model is recognised from the names. Batch norms are folded into their convolutions as gpt.rs's exporter
// does, in f32 and with the same roundings. A tensor that belongs to no row of the table is an error that names it.
Result<HuggingFaceReport> huggingface_to_gptrs(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes);

}  // namespace ballast
