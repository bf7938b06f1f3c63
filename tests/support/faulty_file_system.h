// The real file system, except that one chosen call fails or is the last thing the process does. Calls may come from
// several threads; a fault is asked by one at a time.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "ballast/io/file_system.h"

namespace ballast::testing {

class FaultyFileSystem : public FileSystem {
 public:
  // Called before every call with its name and its number (1, 2, ...). A return other than 0 is an errno: the call is
  // not made and fails with it.
  using Fault = std::function<int(const std::string& call, int number)>;

  explicit FaultyFileSystem(Fault fault) : fault_(std::move(fault)) {}

  // Only the call with this number fails. Closing and removing are spared: nobody could tidy up without them.
  static Fault fail_call(int number, int error_number);
  // Every call of this name fails.
  static Fault fail_every(std::string call, int error_number);
  // The process is killed before the call with this number is made.
  static Fault kill_at(int number);
  static Fault none();

  int calls() const { return static_cast<int>(log().size()); }
  // Names of the calls so far, in order.
  std::vector<std::string> log() const;

  int open_at(int folder, const char* name, int flags, mode_t mode) const override;
  int close(int fd) const override;
  int stat_at(int folder, const char* name, int flags, struct stat* out) const override;
  int stat_open(int fd, struct stat* out) const override;
  int can_write_at(int folder, const char* name) const override;
  ssize_t read_link_at(int folder, const char* name, char* out, size_t length) const override;
  int list(int folder, const std::function<void(std::string_view)>& visit) const override;
  ssize_t read_at(int fd, void* out, size_t length, off_t offset) const override;
  void* map(int fd, size_t length) const override;
  ssize_t write_at(int fd, const void* bytes, size_t length, off_t offset) const override;
  int reserve(int fd, off_t length) const override;
  int truncate(int fd, off_t length) const override;
  int lock(int fd) const override;
  int change_mode(int fd, mode_t mode) const override;
  int change_owner(int fd, uid_t owner, gid_t group) const override;
  int sync(int fd) const override;
  int check_writes(int fd) const override;
  int rename_at(int folder, const char* from, const char* to) const override;
  int rename_new_at(int folder, const char* from, const char* to) const override;
  int link_at(int folder, const char* from, const char* to) const override;
  int unlink_at(int folder, const char* name) const override;
  int exchange_at(int folder, const char* one, const char* other) const override;
  int link_into(int from_folder, const char* name, int to_folder) const override;
  int make_folder_at(int folder, const char* name, mode_t mode) const override;
  int remove_folder_at(int folder, const char* name) const override;

 private:
  bool fails(const char* call) const;

  Fault fault_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> log_;
};

}  // namespace ballast::testing
