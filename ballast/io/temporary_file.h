// Files that exist only until they are renamed: how they are named, recognised, locked and removed.
//
// A temporary of "model.bin" is called ".model.bin.<process>-<ticket>.ballast-tmp" and stands in the same folder,
// because a rename cannot leave a file system. Its writer holds a lock on it as long as it lives. The lock, not the
// process number, tells the living from the dead: numbers are used again, and other containers and machines have their
// own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/io/file_system.h"

namespace ballast {

// `ticket` makes the name unique within a process. Fits every file system even when `file_name` is as long as allowed.
std::string temporary_name(std::string_view file_name, int64_t process, uint64_t ticket);
bool is_temporary_of(std::string_view name, std::string_view file_name);
bool is_temporary(std::string_view name);  // of any file
// The name of the file that a temporary was to become; shortened where that name is long.
std::string_view owner_of_temporary(std::string_view name);

// Removes temporaries of `file_name` whose writer is dead. What cannot be removed stays: tidying up is no reason to
// fail.
void remove_stale_temporaries(const FileSystem& files, int folder, std::string_view file_name);
// The same for all files of the folder; gives the names of those removed.
std::vector<std::string> remove_stale_temporaries(const FileSystem& files, int folder);

struct Folder {
  OwnedFd fd;
  dev_t device = 0;
  ino_t inode = 0;
};

class TemporaryFile {
 public:
  // A new, empty, locked file beside `file_name`. `path` is what errors call it.
  static Result<TemporaryFile> create(const FileSystem& files, std::shared_ptr<const Folder> folder,
                                      std::string_view file_name, mode_t mode, const std::string& path);
  ~TemporaryFile() {
    remove();
    forget();
  }
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  int fd() const { return fd_.get(); }
  const Folder& folder() const { return *folder_; }

  // Gives the file its final name in the same folder. Without `replace`, EEXIST when that name is taken. 0 or an errno.
  int publish(const std::string& file_name, bool replace);
  // Takes the temporary name away, if it is still there.
  void remove();

 private:
  TemporaryFile(const FileSystem& files, std::shared_ptr<const Folder> folder, std::string name);
  int publish_new(const std::string& file_name);
  int open_and_lock(mode_t mode);
  void forget();

  const FileSystem& files_;
  std::shared_ptr<const Folder> folder_;
  std::string name_;
  OwnedFd fd_;
  int signal_slot_ = -1;
  bool exists_ = false;
};

}  // namespace ballast
