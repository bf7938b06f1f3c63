// What a model of some kind is built from.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/json_object.h"
#include "ballast/nn/layer_listing.h"

namespace ballast {

// What a file says about its model, in the words of whoever wrote it.
struct KindConfig {
  enum class Words : uint8_t {
    kItsOwn,       // the kind's own: "config" in {"kind", "config", "runtime"}
    kHuggingFace,  // a config.json
    kGguf,         // the metadata of a GGUF file, as one object
    kNewerGptrs,   // "config" of later generations of gpt.rs, which keep transformers' keys
    kLayers,       // netcl's list of layers: `layers` instead of a text
  };

  std::string text = "null";  // a JSON object, or null
  Words words = Words::kItsOwn;
  std::string gptrs_kind = {};               // kNewerGptrs: "gpt" or "ministral"
  std::optional<std::string> sentence = {};  // kHuggingFace: ModelFolder::sentence
  nn::LayerListing layers = {};              // kLayers

  // All of it as the kind's own words, for files that hold nothing else; and the way back, which gives any other config
  // as it is.
  std::string to_own() const;
  static Result<KindConfig> from_own(std::string_view text);
};

// `text`: an object, or null, which has no fields; it must outlive the result. Errors say "config of the <kind> model";
// `kind` may be empty where it is not known yet. Unknown fields are ignored, as gpt.rs ignores them.
Result<JsonObject> parse_kind_config(std::string_view kind, std::string_view text);
template <std::same_as<std::string> Temporary>
Result<JsonObject> parse_kind_config(std::string_view kind, Temporary&& text) = delete;

}  // namespace ballast
