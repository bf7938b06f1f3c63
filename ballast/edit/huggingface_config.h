// Model configs of gpt.rs and of Hugging Face's config.json, each from the other and from what shapes tell.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/edit/huggingface_table.h"

namespace ballast {

// The dimension of a tensor of the gpt.rs side; nullopt where there is no such tensor or axis.
using FindDimension = std::function<std::optional<uint64_t>(std::string_view tensor, size_t axis)>;

// What a GPTRSCHK config says. Views into the text.
struct GptrsModelConfig {
  std::string kind;
  std::string_view values;  // the object with the model's own settings
};

// kInvalidArgument where the text is no config. A text without "kind" is a bare GPT config, as early files have it.
Result<GptrsModelConfig> read_gptrs_model_config(std::string_view text, const std::string& where);
// Whether the text is in gpt.rs's form, with a "kind"; otherwise it is taken for a config.json.
bool is_gptrs_config(std::string_view text);

// The text of config.json for transformers; "" where the kind has none (torchvision).
Result<std::string> make_huggingface_config(const NamedModel& kind, const GptrsModelConfig& config, bool tied,
                                            std::vector<std::string>& notes);

struct HuggingFaceConfig {
  std::string_view text;   // of config.json, or "" without one
  std::string name;        // of the file, for errors
  bool name_gelu = false;  // say in gpt.rs's config which GELU it is
};

// The text that gpt.rs's own exporter writes. Values that neither config.json nor a shape tells are an error that names
// them; values that contradict the shapes are one too.
Result<std::string> make_gptrs_config(const NamedModel& kind, const HuggingFaceConfig& config,
                                      const FindDimension& dimension, size_t layers, std::vector<std::string>& notes);

// Whether config.json says that the output matrix is the embedding; nullopt where it does not say.
Result<std::optional<bool>> says_tied(const HuggingFaceConfig& config);

}  // namespace ballast
