#include <fmt/format.h>

#include <cerrno>
#include <limits>

#include "ballast/io/destination.h"
#include "ballast/io/file.h"
#include "ballast/io/file_sink.h"
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
  Entry(const FileSystem& files, Destination destination, TemporaryFile file, uint64_t expected_size, bool sync)
      : to(std::move(destination)),
        temporary(std::move(file)),
        sink(files, temporary.fd(), to.path, sync),
        reserved(expected_size) {}

  Destination to;
  TemporaryFile temporary;
  FileSink sink;
  uint64_t reserved;
};

AtomicFiles::AtomicFiles(CommitOptions options)
    : options_(options), files_(options.file_system != nullptr ? *options.file_system : os_file_system()) {}

AtomicFiles::~AtomicFiles() = default;

Result<ByteSink*> AtomicFiles::add(const std::string& destination, uint64_t expected_size) {
  if (finished_) return make_error(ErrorCode::kInvalidArgument, destination + ": added after the commit");
  BALLAST_TRY(Destination to, resolve_destination(files_, destination, options_.overwrite));
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
      std::make_unique<Entry>(files_, std::move(to), std::move(temporary), expected_size, options_.sync));
  return &entries_.back()->sink;
}

Status AtomicFiles::commit() {
  if (finished_) return make_error(ErrorCode::kInvalidArgument, "a set of files can be committed only once");
  finished_ = true;
  Status status;
  for (size_t i = 0; i < entries_.size() && status; ++i) status = prepare(*entries_[i]);
  if (status) status = publish_all();
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
    const int error_number = entry.temporary.publish(entry.to.name, options_.overwrite);
    if (error_number == EEXIST) {
      return take_back(i, make_error(ErrorCode::kExists,
                                     entry.to.path + ": appeared while it was being written, and overwriting was not "
                                                     "asked for"));
    }
    if (error_number != 0) return take_back(i, io_error(entry.to.path, "give it its final name", error_number));
  }
  if (Status synced = sync_folders(); !synced) {
    return std::move(synced).error().with_context("everything is in place, but may not survive a power failure");
  }
  return {};
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
