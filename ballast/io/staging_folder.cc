#include "ballast/io/staging_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <random>

#include "ballast/io/signal_table.h"
#include "ballast/io/work_folder.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

OwnedFd open_inside(const FileSystem& files, int folder, const std::string& name) {
  return {files, files.open_at(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)};
}

int list_names(const FileSystem& files, int folder, std::vector<std::string>& names) {
  return files.list(folder, [&](std::string_view name) {
    if (name != "." && name != "..") names.emplace_back(name);
  });
}

// What can be removed is.
void remove_tree(const FileSystem& files, int folder, const std::string& name) {
  if (files.unlink_at(folder, name.c_str()) == 0) return;
  if (const OwnedFd inside = open_inside(files, folder, name); inside.is_open()) {
    std::vector<std::string> names;
    list_names(files, inside.get(), names);
    for (const std::string& entry : names) remove_tree(files, inside.get(), entry);
  }
  files.remove_folder_at(folder, name.c_str());
}

// Folders of writers that are dead: a living one holds a lock.
void remove_stale_folders(const FileSystem& files, int parent, const std::string& name) {
  std::vector<std::string> names;
  list_names(files, parent, names);
  for (const std::string& found : names) {
    if (!is_temporary_of(found, name)) continue;
    const OwnedFd folder = open_inside(files, parent, found);
    if (folder.is_open() && files.lock(folder.get()) == 0) remove_tree(files, parent, found);
  }
}

bool cannot_exchange(int error_number) {
  return error_number == EINVAL || error_number == ENOSYS || error_number == ENOTSUP;
}

}  // namespace

Result<StagingFolder> StagingFolder::create(const std::string& path, StagingOptions options) {
  const FileSystem& files = options.file_system != nullptr ? *options.file_system : os_file_system();
  StagingFolder staging(files, std::move(options));
  BALLAST_CHECK(staging.find_place(path));
  remove_stale_folders(files, staging.parent_.get(), staging.name_);
  BALLAST_CHECK(staging.make());
  return staging;
}

Status StagingFolder::find_place(const std::string& path) {
  std::error_code failure;
  given_path_ = (fs::path(path) / "").parent_path().string();
  fs::path target = fs::path(path).lexically_normal();
  // Links are followed, and "." gets a name.
  if (const fs::path real = fs::canonical(target, failure); !failure) target = real;
  else if (failure != std::errc::no_such_file_or_directory) return path_error(path, "look at it", failure.value());
  if (!target.has_filename()) target = target.parent_path();
  path_ = target.string();
  const SplitPath parts = split_path(path_);
  name_ = parts.name;
  if (name_.empty()) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: cannot be replaced", path));
  parent_ = OwnedFd(*files_, files_->open_at(AT_FDCWD, parts.folder.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (!parent_.is_open()) return path_error(path, "open the folder above it", errno);
  return check_existing(path);
}

Status StagingFolder::check_existing(const std::string& path) {
  struct stat info {};
  if (files_->stat_at(parent_.get(), name_.c_str(), AT_SYMLINK_NOFOLLOW, &info) != 0) {
    return errno == ENOENT ? Status() : Status(path_error(path, "look at it", errno));
  }
  if (!S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kExists, fmt::format("{}: exists already and is no folder", path));
  }
  const OwnedFd folder = open_inside(*files_, parent_.get(), name_);
  std::vector<std::string> names;
  if (!folder.is_open() || list_names(*files_, folder.get(), names) != 0) {
    return path_error(path, "list the folder", errno);
  }
  struct stat here {};
  if (files_->stat_at(AT_FDCWD, ".", 0, &here) == 0 && here.st_dev == info.st_dev && here.st_ino == info.st_ino) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: is the folder that the program runs in, which it cannot replace; start it "
                                  "elsewhere, or name a folder inside",
                                  path));
  }
  if (names.empty()) return {};
  if (!options_.replaces) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: the folder is not empty, and overwriting was not asked for", path),
                      Remedy::kAllowOverwrite);
  }
  old_ = std::move(names);
  return {};
}

Status StagingFolder::make() {
  constexpr int kAttempts = 100;
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t ticket = uint64_t{random()} << 32 | random();
    staging_name_ = temporary_name(name_, ::getpid(), ticket);
    // Entered first: a signal in between then finds nothing, instead of missing a folder that is there.
    signal_slot_ = enter_signal_table(parent_.get(), staging_name_, Temporary::kFolder);
    if (files_->make_folder_at(parent_.get(), staging_name_.c_str(), 0777) == 0) {
      staging_path_ = path_beside(path_, staging_name_);
      staging_fd_ = open_inside(*files_, parent_.get(), staging_name_);
      if (!staging_fd_.is_open()) return io_error(path_, "open a new folder beside it", errno);
      // Between making and locking, another writer that tidies up may have taken it for stale.
      static_cast<void>(files_->lock(staging_fd_.get()));
      if (is_same_file(*files_, parent_.get(), staging_name_.c_str(), staging_fd_.get())) return {};
      files_->remove_folder_at(parent_.get(), staging_name_.c_str());
      forget();
    } else {
      const int error_number = errno;
      forget();
      if (error_number == EEXIST) continue;
      staging_name_.clear();
      return path_error(path_, "make a folder beside it", error_number);
    }
  }
  staging_name_.clear();
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot make a folder beside it: another program keeps taking or "
                                                "removing it",
                                                path_));
}

StagingFolder::StagingFolder(StagingFolder&& other) noexcept
    : files_(other.files_),
      options_(std::move(other.options_)),
      given_path_(std::move(other.given_path_)),
      path_(std::move(other.path_)),
      name_(std::move(other.name_)),
      staging_name_(std::exchange(other.staging_name_, {})),
      staging_path_(std::move(other.staging_path_)),
      parent_(std::move(other.parent_)),
      signal_slot_(std::exchange(other.signal_slot_, -1)),
      staging_fd_(std::move(other.staging_fd_)),
      old_(std::move(other.old_)) {}

StagingFolder::~StagingFolder() {
  try {
    if (!staging_name_.empty()) remove_tree(*files_, parent_.get(), staging_name_);
  } catch (const std::bad_alloc&) {
    // Left to the next writer: there is no memory to list it.
  }
  forget();
}

Error StagingFolder::meant(Error error) const {
  name_instead(error.message, staging_path_, given_path_);
  return error;
}

void name_instead(std::string& text, const std::string& folder, const std::string& path) {
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + path.size())) {
    text.replace(at, folder.size(), path);
  }
}

void StagingFolder::forget() { leave_signal_table(std::exchange(signal_slot_, -1)); }

// ---------------------------------------------------------------- publishing

Status StagingFolder::publish() {
  if (old_) {
    const OwnedFd old_folder = open_inside(*files_, parent_.get(), name_);
    if (!old_folder.is_open()) return path_error(path_, "open the folder", errno);
    struct stat info {};
    if (files_->stat_open(old_folder.get(), &info) == 0) {
      static_cast<void>(files_->change_mode(staging_fd_.get(), info.st_mode & 07777));
    }
    BALLAST_CHECK(carry_over(old_folder.get(), staging_fd_.get(), ""));
  }
  // Some file systems cannot sync a folder and say EINVAL; there is nothing better to do on them.
  if (options_.sync && files_->sync(staging_fd_.get()) != 0 && errno != EINVAL) {
    return io_error(path_, "bring the folder to the disk", errno);
  }
  BALLAST_CHECK(swap_in());
  if (options_.sync && files_->sync(parent_.get()) != 0 && errno != EINVAL) {
    return io_error(path_,
                    "bring the folder above it to the disk; the folder is in place, but may not survive a power "
                    "failure",
                    errno);
  }
  return {};
}

// Links, not copies: nothing is moved before the exchange, and an unfinished publish leaves the old folder as it was.
Status StagingFolder::carry_over(int from, int to, const std::string& inside) {
  std::vector<std::string> names;
  if (list_names(*files_, from, names) != 0) return io_error(path_, "list the folder", errno);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const std::string shown = inside + name;
    if (is_temporary(name) || options_.replaces(shown)) continue;
    const OwnedFd folder = open_inside(*files_, from, name);
    if (!folder.is_open()) {
      // Of the same name as a new file: replaced, whatever it was.
      if (files_->link_into(from, name.c_str(), to) == 0 || errno == EEXIST) continue;
      return io_error(path_ + "/" + shown, "keep it", errno);
    }
    if (files_->make_folder_at(to, name.c_str(), 0777) != 0 && errno != EEXIST) {
      return io_error(path_ + "/" + shown, "keep it", errno);
    }
    const OwnedFd copy = open_inside(*files_, to, name);
    if (!copy.is_open()) return io_error(path_ + "/" + shown, "keep it", errno);
    struct stat info {};
    if (files_->stat_open(folder.get(), &info) == 0) {
      static_cast<void>(files_->change_mode(copy.get(), info.st_mode & 07777));
    }
    BALLAST_CHECK(carry_over(folder.get(), copy.get(), shown + "/"));
    if (options_.sync && files_->sync(copy.get()) != 0 && errno != EINVAL) {
      return io_error(path_ + "/" + shown, "bring the folder to the disk", errno);
    }
  }
  return {};
}

// Another writer was faster, or the disk does not want it.
Error StagingFolder::not_named(int error_number) const {
  const bool is_taken = error_number == EEXIST || error_number == ENOTEMPTY || error_number == ENOTDIR;
  if (!is_taken) return io_error(path_, "give the folder its final name", error_number);
  if (options_.replaces) {
    return make_error(
        ErrorCode::kExists,
        fmt::format("{}: appeared while it was being written; another writer is at work there, try again", path_));
  }
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: appeared while it was being written, and overwriting was not asked for", path_),
                    Remedy::kAllowOverwrite);
}

Status StagingFolder::swap_in() {
  if (!old_) {
    if (files_->rename_at(parent_.get(), staging_name_.c_str(), name_.c_str()) != 0) return not_named(errno);
    staging_name_.clear();
    forget();
    return {};
  }
  // From here on the hidden name may be that of the old folder, which no signal may remove.
  forget();
  if (files_->exchange_at(parent_.get(), staging_name_.c_str(), name_.c_str()) != 0) {
    return cannot_exchange(errno) ? swap_in_two_steps() : Status(io_error(path_, "exchange the folders", errno));
  }
  // The exchange must be on the disk before the old folder goes.
  if (options_.sync && files_->sync(parent_.get()) != 0 && errno != EINVAL) {
    const int error_number = errno;
    static_cast<void>(files_->exchange_at(parent_.get(), staging_name_.c_str(), name_.c_str()));
    return io_error(path_, "bring the exchange of the folders to the disk", error_number);
  }
  if (const OwnedFd old_folder = open_inside(*files_, parent_.get(), staging_name_); old_folder.is_open()) {
    save_latecomers(old_folder.get(), staging_fd_.get());
  }
  remove_tree(*files_, parent_.get(), std::exchange(staging_name_, {}));
  return {};
}

Status StagingFolder::swap_in_two_steps() {
  constexpr std::string_view kSuffix = ".ballast-old";
  const std::string aside = fmt::format(".{}.{}{}", name_, ::getpid(), kSuffix);
  if (files_->rename_at(parent_.get(), name_.c_str(), aside.c_str()) != 0) {
    return io_error(path_, "move the old folder aside", errno);
  }
  if (files_->rename_at(parent_.get(), staging_name_.c_str(), name_.c_str()) != 0) {
    const int error_number = errno;
    static_cast<void>(files_->rename_at(parent_.get(), aside.c_str(), name_.c_str()));
    return not_named(error_number);
  }
  staging_name_.clear();
  if (options_.sync && files_->sync(parent_.get()) != 0 && errno != EINVAL) {
    return io_error(path_, "bring the new folder to the disk", errno);
  }
  if (const OwnedFd old_folder = open_inside(*files_, parent_.get(), aside); old_folder.is_open()) {
    save_latecomers(old_folder.get(), staging_fd_.get());
  }
  remove_tree(*files_, parent_.get(), aside);
  return {};
}

// Files that others put into the old folder while the new one was being made.
void StagingFolder::save_latecomers(int old_folder, int new_folder) const {
  std::vector<std::string> names;
  list_names(*files_, old_folder, names);
  for (const std::string& name : names) {
    if (std::ranges::find(*old_, name) != old_->end() || is_temporary(name)) continue;
    static_cast<void>(files_->link_into(old_folder, name.c_str(), new_folder));
  }
}

}  // namespace ballast
