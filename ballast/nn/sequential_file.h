// Models of layers in files: netcl's own, and safetensors with the same JSON for what netcl's cannot hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/archive/write.h"
#include "ballast/formats/archive.h"
#include "ballast/nn/layer_listing.h"
#include "ballast/nn/sequential.h"

namespace ballast::nn {

// The metadata entry of a safetensors file that holds the model's JSON.
inline constexpr std::string_view kSequentialKey = "ballast.sequential";

// nullopt where the archive holds no such model. A legacy pair's convolutions without bias say so here.
Result<std::optional<LayerListing>> read_layer_listing(const Description& description);

// {"type": "Sequential", "config": [...], "version": 2, "format": "netcl.single-file"}, and "ballast" where the model
// has something to say of itself; netcl passes over that.
std::string sequential_json(const Sequential& model, std::string_view format);

struct SaveReport {
  std::vector<std::string> warnings;
  uint64_t bytes = 0;
};

// Any layers, in safetensors. Parent folders are created; the write is atomic and replaces what is there,
// unless `overwrite` is off: then that is kExists.
Result<SaveReport> save_safetensors(const Sequential& model, const std::string& path, bool sync = true,
                                    bool overwrite = true);

// Creates the folders above `path`.
Status create_parents(const std::string& path);

}  // namespace ballast::nn
