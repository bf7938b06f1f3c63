// Names of files made from names of tensors.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cli {

// A plain file name that every file system takes: letters, digits, '.', '-' and '_' stay, every other byte becomes %XX.
// Different texts give different names, except on file systems that ignore case. kInvalidArgument for a text that is
// empty or too long.
Result<std::string> safe_file_name(std::string_view text);

// It ends in '/', or is one.
bool names_a_folder(const std::string& path);

// A new folder beside `path` that becomes `path` when published; removed with everything in it otherwise.
class StagingFolder {
 public:
  // `path` must not exist, or be an empty folder.
  static Result<StagingFolder> create(const std::string& path);
  ~StagingFolder();
  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&&) = delete;

  const std::string& path() const { return staging_; }
  Status publish();

 private:
  StagingFolder(std::string path, std::string staging) : path_(std::move(path)), staging_(std::move(staging)) {}

  std::string path_;
  std::string staging_;  // empty once published
};

}  // namespace ballast::cli
