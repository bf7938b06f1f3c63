#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "ballast/io/destination.h"
#include "ballast/io/file.h"
#include "ballast/io/file_sink.h"
#include "ballast/io/file_version.h"
#include "ballast/io/temporary_file.h"

namespace ballast {

namespace {

// Never narrower than what the writer itself needs, never wider than the file that is to be replaced.
mode_t mode_while_writing(const Destination& to) { return to.existing ? (to.existing->st_mode & 0666) | 0600 : 0666; }

Status reserve_space(const FileSystem& files, int fd, const std::string& path, uint64_t size) {
  if (size > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: no file can have {} bytes", path, size));
  }
  if (files.reserve(fd, static_cast<off_t>(size)) == 0) return {};
  // Only a full disk and a limit on the size of files say that the writes will fail.
  if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return {};
  return write_error(files, fd, path, fmt::format("reserve {} bytes", size), size, errno);
}

}  // namespace

struct AtomicFiles::Entry {
  Entry(const FileSystem& files, Destination destination, TemporaryFile file, uint64_t expected_size, bool sync,
        bool may_replace)
      : to(std::move(destination)),
        temporary(std::move(file)),
        sink(files, temporary.fd(), to.path, sync),
        reserved(expected_size),
        replace(may_replace) {}

  Destination to;
  TemporaryFile temporary;
  FileSink sink;
  uint64_t reserved;
  bool replace;
};

AtomicFiles::AtomicFiles(CommitOptions options)
    : options_(options), files_(options.file_system != nullptr ? *options.file_system : os_file_system()) {}

AtomicFiles::~AtomicFiles() = default;

Result<ByteSink*> AtomicFiles::add(const std::string& destination, uint64_t expected_size) {
  return add_entry(destination, expected_size, options_.overwrite);
}

Result<ByteSink*> AtomicFiles::add_new(const std::string& destination, uint64_t expected_size) {
  return add_entry(destination, expected_size, false);
}

Result<ByteSink*> AtomicFiles::add_entry(const std::string& destination, uint64_t expected_size, bool replace) {
  if (finished_) return make_error(ErrorCode::kInvalidArgument, destination + ": added after the commit");
  BALLAST_TRY(Destination to, resolve_destination(files_, destination, replace));
  for (const auto& entry : entries_) {
    if (entry->to.is_same_place(to)) {
      return make_error(ErrorCode::kInvalidArgument, destination + ": is to be written twice in one go");
    }
    // One descriptor serves all files of a folder.
    if (entry->to.folder->device == to.folder->device && entry->to.folder->inode == to.folder->inode) {
      to.folder = entry->to.folder;
    }
  }
  remove_stale_temporaries(files_, to.folder->fd.get(), to.name);
  BALLAST_TRY(TemporaryFile temporary,
              TemporaryFile::create(files_, to.folder, to.name, mode_while_writing(to), destination));
  if (expected_size > 0) BALLAST_CHECK(reserve_space(files_, temporary.fd(), destination, expected_size));
  entries_.push_back(
      std::make_unique<Entry>(files_, std::move(to), std::move(temporary), expected_size, options_.sync, replace));
  return &entries_.back()->sink;
}

Status AtomicFiles::commit() {
  if (finished_) return make_error(ErrorCode::kInvalidArgument, "a set of files can be committed only once");
  finished_ = true;
  Status status;
  for (size_t i = 0; i < entries_.size() && status; ++i) status = prepare(*entries_[i]);
  if (status) status = publish_all();
  if (status && !superseded_.empty()) {
    remove_superseded();
    static_cast<void>(sync_folders());  // without it they may be there again; the set is sound either way
  }
  entries_.clear();  // gives up the locks, and removes what was not published
  return status;
}

// Everything that can fail without anything being visible.
Status AtomicFiles::prepare(Entry& entry) {
  const int fd = entry.temporary.fd();
  const std::string& path = entry.to.path;
  BALLAST_CHECK(entry.sink.flush());
  if (entry.reserved > entry.sink.position() && files_.truncate(fd, static_cast<off_t>(entry.sink.position())) != 0) {
    return io_error(path, "give reserved space back", errno);
  }
  if (entry.to.existing) {
    const struct stat& old = *entry.to.existing;
    // Root may keep the owner, others often the group; whoever may do neither owns the file, as after any replacement.
    if (files_.change_owner(fd, old.st_uid, old.st_gid) != 0) {
      static_cast<void>(files_.change_owner(fd, static_cast<uid_t>(-1), old.st_gid));
    }
    if (files_.change_mode(fd, old.st_mode & 0777) != 0) return io_error(path, "set its permissions", errno);
  }
  if ((options_.sync ? files_.sync(fd) : files_.check_writes(fd)) != 0) {
    return write_error(files_, fd, path, "bring it to the disk", entry.sink.position(), errno);
  }
  return {};
}

Status AtomicFiles::publish_all() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = *entries_[i];
    const bool is_commit_of_several = i > 0 && i + 1 == entries_.size();
    // After a power failure the index must not be there without what it points to.
    if (is_commit_of_several) {
      if (Status synced = sync_folders(); !synced) return take_back(i, std::move(synced).error());
    }
    if (options_.replaced && !is_unchanged(entry)) {
      return take_back(i, make_error(ErrorCode::kExists,
                                     fmt::format("{}: was changed by another program while the new version was being "
                                                 "written; nothing was replaced, run the command again",
                                                 entry.to.path)));
    }
    const int error_number = entry.temporary.publish(entry.to.name, entry.replace);
    if (error_number == EEXIST) {
      const std::string_view why = options_.overwrite ? "another writer is replacing the same set; try again"
                                                      : "and overwriting was not asked for";
      return take_back(i, make_error(ErrorCode::kExists,
                                     fmt::format("{}: appeared while it was being written, {}", entry.to.path, why),
                                     options_.overwrite ? Remedies() : Remedy::kAllowOverwrite));
    }
    if (error_number != 0) return take_back(i, io_error(entry.to.path, "give it its final name", error_number));
  }
  if (Status synced = sync_folders(); !synced) {
    return std::move(synced).error().with_context("everything is in place, but may not survive a power failure");
  }
  return {};
}

bool AtomicFiles::is_unchanged(const Entry& entry) const {
  struct stat now {};
  return files_.stat_at(entry.to.folder->fd.get(), entry.to.name.c_str(), AT_SYMLINK_NOFOLLOW, &now) == 0 &&
         version_of(now) == *options_.replaced;
}

void AtomicFiles::remove_superseded() const {
  for (const std::string& path : superseded_) {
    const SplitPath parts = split_path(path);
    // The folder of the set is open; opening it once more could fail.
    const auto beside = std::ranges::find_if(
        entries_, [&](const auto& entry) { return split_path(entry->to.path).folder == parts.folder; });
    if (beside == entries_.end()) continue;
    const int folder = (*beside)->to.folder->fd.get();
    // A writer holds its files until its commit is done: what is locked is not superseded but still to be named.
    const OwnedFd file(files_, files_.open_at(folder, parts.name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0));
    if (file.is_open() && files_.lock(file.get()) != 0 && errno == EWOULDBLOCK) continue;
    static_cast<void>(files_.unlink_at(folder, parts.name.c_str()));
  }
}

Status AtomicFiles::sync_folders() {
  if (!options_.sync) return {};
  const Folder* previous = nullptr;  // nearly always there is one folder only
  for (const auto& entry : entries_) {
    const Folder* folder = entry->to.folder.get();
    // Some file systems cannot sync a folder and say EINVAL; there is nothing better to do on them.
    if (folder != previous && files_.sync(folder->fd.get()) != 0 && errno != EINVAL) {
      return io_error(entry->to.path, "bring its folder to the disk", errno);
    }
    previous = folder;
  }
  return {};
}

Error AtomicFiles::take_back(size_t published, Error cause) {
  std::string remaining;
  for (size_t i = 0; i < published; ++i) {
    const Destination& to = entries_[i]->to;
    const int folder = to.folder->fd.get();
    const bool removed = !to.existing && is_same_file(files_, folder, to.name.c_str(), entries_[i]->temporary.fd()) &&
                         files_.unlink_at(folder, to.name.c_str()) == 0;
    if (!removed) remaining += (remaining.empty() ? "" : ", ") + to.path;
  }
  if (!remaining.empty()) cause.message += "; already in place and new: " + remaining;
  return cause;
}

}  // namespace ballast
