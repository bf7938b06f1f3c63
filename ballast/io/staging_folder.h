// A folder that appears whole or not at all, like the files of AtomicFiles.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/io/temporary_file.h"

namespace ballast {

struct StagingOptions {
  // Null: the destination must be absent or empty. Otherwise it may hold files: those that this says true of are
  // replaced by what is published, or removed with nothing in their place; all others stay. It gets the path inside the
  // folder: "config.json", "1_Pooling/config.json".
  std::function<bool(std::string_view inside)> replaces = nullptr;
  bool sync = true;
  const FileSystem* file_system = nullptr;  // null: the operating system's. Must outlive the object.
};

// A new folder beside `path` that becomes `path` when published; removed with everything in it otherwise.
//
// It is named as temporary files are, ".<name>.<process>-<ticket>.ballast-tmp", and its writer holds a lock on it: what
// writers that were killed left is removed by the next one to the same destination. remove_temporaries_on_signal()
// removes it too.
//
// Where the destination holds files, those that stay are linked into the new folder, which is then exchanged for the
// old one in a single rename: whenever the process is killed, the folder is the old one or the new one. File systems
// that cannot exchange folders need two renames; killed between them, nothing is at the destination, and what was there
// is beside it, under a hidden name that ends in ".ballast-old".
class StagingFolder {
 public:
  static Result<StagingFolder> create(const std::string& path, StagingOptions options = {});
  ~StagingFolder();
  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&&) = delete;

  const std::string& path() const { return staging_path_; }
  // What is said of this folder is meant of the destination, by the name that create() was given.
  Error meant(Error error) const;
  Status publish();

 private:
  StagingFolder(const FileSystem& files, StagingOptions options) : files_(&files), options_(std::move(options)) {}
  Status find_place(const std::string& path);
  Status check_existing(const std::string& path);
  Status make();
  Status carry_over(int from, int to, const std::string& inside);
  Status swap_in();
  Error not_named(int error_number) const;
  void forget();
  Status swap_in_two_steps();
  void save_latecomers(int old_folder, int new_folder) const;

  const FileSystem* files_;
  StagingOptions options_;
  std::string given_path_;    // of the destination, without slashes at its end
  std::string path_;          // the same without links
  std::string name_;          // its last part
  std::string staging_name_;  // empty once published
  std::string staging_path_;
  OwnedFd parent_;
  int signal_slot_ = -1;
  OwnedFd staging_fd_;                           // holds the lock
  std::optional<std::vector<std::string>> old_;  // names in the folder that is replaced; nullopt: none, or an empty one
};

// What a text says of `folder`, which nobody asked for, is meant of `path`.
void name_instead(std::string& text, const std::string& folder, const std::string& path);

}  // namespace ballast
