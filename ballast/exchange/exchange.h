// A model moves from the form one program runs to the form another runs: a Hugging Face folder, a GGUF file, a gpt.rs
// checkpoint. Containers are the archive layer's business; here a container becomes a model that runs: parameter names,
// matrix layouts, config, vocabulary, chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/convert.h"
#include "ballast/edit/cast.h"

namespace ballast {

// What is converted: the path the user gave (a file or a folder), and what was opened there.
struct ExchangeSource {
  std::string path;  // "-" or empty: nothing stands beside it
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
  bool is_new_form = false;        // the result is another program's model: names and layouts change
  // The plan leads to a Hugging Face folder, and the target is to be made from that: plan_exchange() on the folder.
  bool through_folder = false;
};

// The source as the GGUF file that llama.cpp's own converter would make of it: architecture, hyperparameters,
// vocabulary, chat template, tensor names, permuted and fused matrices. kUnsupported, naming the reason and what will
// work, where llama.cpp has no such architecture.
Result<ExchangePlan> plan_gguf(const ExchangeSource& source);

struct FolderOptions {
  // What quantised tensors become. Without a type they stay packed, for edits that follow to unpack: safetensors has no
  // place for them. Those that must be transposed, which packed ones cannot be, become f32 then.
  std::optional<DType> dequantize{};
  std::shared_ptr<CastLog> casts{};  // what that cost; may be null
  // What edits that follow make of the weights, for config.json to name; otherwise it names the type they have.
  std::optional<DType> dtype{};
};

// The source as a Hugging Face folder: model.safetensors under transformers' names, config.json, tokenizer.json,
// tokenizer_config.json with the chat template, generation_config.json. From a GGUF file, or a gpt.rs model in its
// checkpoint or in safetensors; kUnsupported, naming the reason and what will work, where transformers has no such
// model. The archive must outlive the plan.
Result<ExchangePlan> plan_folder(const ExchangeSource& source, const FolderOptions& options = {});

// ---------------------------------------------------------------- which of them, or neither

// What makes a file or folder a model that runs.
enum class ModelForm : uint8_t {
  kNone,         // tensors without a config: any container is as good as another
  kHuggingFace,  // a config.json beside the weights
  kGguf,         // metadata that names the architecture
  kGptrs,        // a config of gpt.rs's, {"kind", "config"}
  kLayers,       // netcl's JSON: layers one after the other
};
// `path`: where the file stands, for what belongs to it there; empty: nowhere.
Result<ModelForm> find_model_form(const Description& file, const std::string& path = {});

struct ExchangeTarget {
  std::string path;             // as the user gave it; "-" is a stream
  const FormatDriver& format;   // of the weights
  bool is_folder = false;       // `path` is a folder, which holds the weights and the companions
  bool container_only = false;  // keep names and layouts, whether the result runs or not
  FolderOptions folder{};       // where the way leads to or through a Hugging Face folder
};

// The one decision that every command which writes a model makes: what must happen so that the target runs. An empty
// plan where the source is no model, where it runs in the target as it is, or where only the container is to change.
// kUnsupported, with what would work, where no plan leads there: nothing may be written then.
Result<ExchangePlan> plan_exchange(const ExchangeSource& source, const ExchangeTarget& target);

// The same for weights that come from memory (trained, merged, read from a training checkpoint), as an edit: it looks
// at what the plan says the model is, and keeps it runnable in `format`, or is kUnsupported. A model of gpt.rs's runs
// as a checkpoint and as safetensors, layers run as .netcl and as safetensors, GGUF as GGUF.
PlanEdit keep_runnable(const FormatDriver& format);

}  // namespace ballast
