#include "ballast/nn/sequential_file.h"

#include <fmt/format.h>

#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast::nn {

namespace {

// Arguments of a flat "layers" entry move into "args".
std::string entry_json(const NetclLayer& layer) {
  std::string type, args;
  append_json_string(type, layer.type);
  for (const NetclArg& arg : layer.args) {
    args += args.empty() ? "" : ", ";
    append_json_string(args, arg.name);
    args += fmt::format(": {}", arg.value);
  }
  return fmt::format("{{\"type\": {}, \"args\": {{{}}}}}", type, args);
}

Result<LayerListing> parse_listing(const std::string& text, const std::string& where) {
  LayerListing listing;
  listing.layers = "[";
  BALLAST_TRY(const NetclModel model, parse_netcl_config(text, where, [&](const NetclLayer& layer) -> Status {
                listing.layers += (layer.index > 0 ? ", " : "") + entry_json(layer);
                return {};
              }));
  listing.layers += "]";
  listing.version = model.version;
  listing.about = model.about;
  return listing;
}

const std::string* find_text(const Description& description, std::string_view key) {
  for (const MetaEntry& entry : description.metadata) {
    if (entry.key == key) return std::get_if<std::string>(&entry.value);
  }
  return nullptr;
}

}  // namespace

Result<std::optional<LayerListing>> read_layer_listing(const Description& description) {
  if (const std::string* text = find_text(description, kSequentialKey)) {
    BALLAST_TRY(LayerListing listing, parse_listing(*text, std::string(kSequentialKey)));
    listing.separator = '.';
    return std::optional(std::move(listing));
  }
  if (!description.config || description.config->schema != kNetclSchema) return std::optional<LayerListing>();
  std::string text = description.config->text;
  BALLAST_TRY(const NetclModel given, parse_netcl_config(text, "the model's layers"));
  // Only the first generation leaves out that a convolution has no bias.
  if (description.format == kNetclLegacyDriver.name) {
    BALLAST_TRY(text, netcl_config_as_version_2(text, description.tensors));
  }
  BALLAST_TRY(LayerListing listing, parse_listing(text, "the model's layers"));
  listing.version = given.version;
  return std::optional(std::move(listing));
}

std::string sequential_json(const Sequential& model, std::string_view format) {
  return fmt::format("{{\"type\": \"Sequential\", \"config\": {}, \"version\": 2, \"format\": \"{}\"{}}}",
                     model.config_json(), format,
                     model.about().empty() ? "" : fmt::format(", \"ballast\": {}", model.about()));
}

}  // namespace ballast::nn
