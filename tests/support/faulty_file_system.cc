#include "tests/support/faulty_file_system.h"

#include <signal.h>

#include <cerrno>

namespace ballast::testing {

FaultyFileSystem::Fault FaultyFileSystem::fail_call(int number, int error_number) {
  return [=](const std::string& call, int now) {
    return now == number && call != "close" && call != "unlink_at" && call != "remove_folder_at" ? error_number : 0;
  };
}

FaultyFileSystem::Fault FaultyFileSystem::fail_every(std::string call, int error_number) {
  return [=](const std::string& now, int) { return now == call ? error_number : 0; };
}

FaultyFileSystem::Fault FaultyFileSystem::kill_at(int number) {
  return [=](const std::string&, int now) {
    if (now == number) ::raise(SIGKILL);
    return 0;
  };
}

FaultyFileSystem::Fault FaultyFileSystem::none() {
  return [](const std::string&, int) { return 0; };
}

std::vector<std::string> FaultyFileSystem::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

bool FaultyFileSystem::fails(const char* call) const {
  const std::lock_guard lock(mutex_);
  log_.emplace_back(call);
  const int error_number = fault_(call, static_cast<int>(log_.size()));
  if (error_number == 0) return false;
  errno = error_number;
  return true;
}

int FaultyFileSystem::open_at(int folder, const char* name, int flags, mode_t mode) const {
  return fails("open_at") ? -1 : FileSystem::open_at(folder, name, flags, mode);
}

int FaultyFileSystem::close(int fd) const { return fails("close") ? -1 : FileSystem::close(fd); }

int FaultyFileSystem::stat_at(int folder, const char* name, int flags, struct stat* out) const {
  return fails("stat_at") ? -1 : FileSystem::stat_at(folder, name, flags, out);
}

int FaultyFileSystem::stat_open(int fd, struct stat* out) const {
  return fails("stat_open") ? -1 : FileSystem::stat_open(fd, out);
}

int FaultyFileSystem::can_write_at(int folder, const char* name) const {
  return fails("can_write_at") ? -1 : FileSystem::can_write_at(folder, name);
}

ssize_t FaultyFileSystem::read_link_at(int folder, const char* name, char* out, size_t length) const {
  return fails("read_link_at") ? -1 : FileSystem::read_link_at(folder, name, out, length);
}

int FaultyFileSystem::list(int folder, const std::function<void(std::string_view)>& visit) const {
  return fails("list") ? -1 : FileSystem::list(folder, visit);
}

ssize_t FaultyFileSystem::read_at(int fd, void* out, size_t length, off_t offset) const {
  return fails("read_at") ? -1 : FileSystem::read_at(fd, out, length, offset);
}

void* FaultyFileSystem::map(int fd, size_t length) const {
  return fails("map") ? nullptr : FileSystem::map(fd, length);
}

ssize_t FaultyFileSystem::write_at(int fd, const void* bytes, size_t length, off_t offset) const {
  return fails("write_at") ? -1 : FileSystem::write_at(fd, bytes, length, offset);
}

int FaultyFileSystem::reserve(int fd, off_t length) const {
  return fails("reserve") ? -1 : FileSystem::reserve(fd, length);
}

int FaultyFileSystem::truncate(int fd, off_t length) const {
  return fails("truncate") ? -1 : FileSystem::truncate(fd, length);
}

int FaultyFileSystem::lock(int fd) const { return fails("lock") ? -1 : FileSystem::lock(fd); }

int FaultyFileSystem::change_mode(int fd, mode_t mode) const {
  return fails("change_mode") ? -1 : FileSystem::change_mode(fd, mode);
}

int FaultyFileSystem::change_owner(int fd, uid_t owner, gid_t group) const {
  return fails("change_owner") ? -1 : FileSystem::change_owner(fd, owner, group);
}

// Nothing here survives a power failure anyway, and thousands of waits for the disk would take minutes.
int FaultyFileSystem::sync(int) const { return fails("sync") ? -1 : 0; }

int FaultyFileSystem::check_writes(int fd) const { return fails("check_writes") ? -1 : FileSystem::check_writes(fd); }

int FaultyFileSystem::rename_at(int folder, const char* from, const char* to) const {
  return fails("rename_at") ? -1 : FileSystem::rename_at(folder, from, to);
}

int FaultyFileSystem::rename_new_at(int folder, const char* from, const char* to) const {
  return fails("rename_new_at") ? -1 : FileSystem::rename_new_at(folder, from, to);
}

int FaultyFileSystem::link_at(int folder, const char* from, const char* to) const {
  return fails("link_at") ? -1 : FileSystem::link_at(folder, from, to);
}

int FaultyFileSystem::unlink_at(int folder, const char* name) const {
  return fails("unlink_at") ? -1 : FileSystem::unlink_at(folder, name);
}

int FaultyFileSystem::make_folder_at(int folder, const char* name, mode_t mode) const {
  return fails("make_folder_at") ? -1 : FileSystem::make_folder_at(folder, name, mode);
}

int FaultyFileSystem::exchange_at(int folder, const char* one, const char* other) const {
  return fails("exchange_at") ? -1 : FileSystem::exchange_at(folder, one, other);
}

int FaultyFileSystem::link_into(int from_folder, const char* name, int to_folder) const {
  return fails("link_into") ? -1 : FileSystem::link_into(from_folder, name, to_folder);
}

int FaultyFileSystem::remove_folder_at(int folder, const char* name) const {
  return fails("remove_folder_at") ? -1 : FileSystem::remove_folder_at(folder, name);
}

}  // namespace ballast::testing
