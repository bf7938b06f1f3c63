// A model moves from the form one program runs to the form another runs: a Hugging Face folder, a GGUF file, a gpt.rs
// checkpoint. Containers are the archive layer's business; here a container becomes a model that runs: parameter names,
// matrix layouts, config, vocabulary, chat template.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/convert.h"

namespace ballast {

// What is converted: the path the user gave (a file or a folder), and what was opened there.
struct ExchangeSource {
  std::string path;
  const Archive& archive;
};

// A file that belongs beside the weights: config.json, tokenizer.json, ...
struct CompanionFile {
  std::string name;  // relative to the folder; never escapes it
  std::string contents;
};

// What turns the source's weights into a model of the other form. Nothing is drawn before the plan is written.
struct ExchangePlan {
  std::vector<PlanEdit> edits;  // names, layouts, metadata; run before the edits that the user asked for
  std::vector<CompanionFile> companions;
  std::vector<std::string> notes;  // what the target cannot say and a user should know
};

// The source as the GGUF file that llama.cpp's own converter would make of it: architecture, hyperparameters, vocabulary,
// chat template, tensor names, permuted and fused matrices. kUnsupported, naming the reason and what will work, where
// llama.cpp has no such architecture.
Result<ExchangePlan> plan_gguf(const ExchangeSource& source);

// The source as a Hugging Face folder: model.safetensors under transformers' names, config.json, tokenizer.json,
// tokenizer_config.json with the chat template, generation_config.json.
Result<ExchangePlan> plan_folder(const ExchangeSource& source);

}  // namespace ballast
