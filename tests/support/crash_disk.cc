#include "tests/support/crash_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace ballast::testing {

namespace {

constexpr uint64_t kRoot = 1;
constexpr size_t kPage = 4096;

// What one unsynced write leaves.
enum class WriteFate : uint8_t { kKept, kLost, kCut, kZeroed, kGarbled };

struct Random {
  uint64_t state;
  uint64_t next() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state >> 33;
  }
};

void put(std::string& content, uint64_t offset, ByteSpan bytes, WriteFate fate) {
  if (fate == WriteFate::kLost) return;
  if (fate == WriteFate::kCut) bytes = bytes.first(bytes.size() / 2);
  const size_t end = static_cast<size_t>(offset) + bytes.size();
  if (content.size() < end) content.resize(end, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = static_cast<size_t>(offset) + i;
    const bool other_page = at / kPage % 2 == 0;
    if (fate == WriteFate::kZeroed) content[at] = '\0';
    else if (fate == WriteFate::kGarbled && other_page) content[at] = static_cast<char>(at * 131 + 7);
    else content[at] = static_cast<char>(bytes[i]);
  }
}

}  // namespace

// ---------------------------------------------------------------- what is there after a stop

struct CrashDisk::Image {
  std::map<uint64_t, std::string> contents;                     // of files, durable
  std::map<uint64_t, std::map<std::string, uint64_t>> folders;  // of folders, durable
  std::map<uint64_t, std::vector<const Entry*>> pending;        // by file or folder
  Random random;
  Fate fate;

  static bool is_about_names(Call call) { return call != Call::kWrite && call != Call::kTruncate; }

  void apply_name(const Entry& entry) {
    auto& names = folders[entry.folder];
    if (entry.call == Call::kUnlink) {
      names.erase(entry.name);
      return;
    }
    if (entry.call == Call::kExchange) {
      names[entry.to] = entry.object;
      names[entry.name] = entry.offset;
      return;
    }
    if (entry.call == Call::kRename) names.erase(entry.name);
    names[entry.call == Call::kRename || entry.call == Call::kLink ? entry.to : entry.name] = entry.object;
  }

  void apply_data(const Entry& entry, WriteFate what) {
    std::string& content = contents[entry.object];
    if (entry.call == Call::kWrite) put(content, entry.offset, entry.bytes, what);
    else if (what != WriteFate::kLost) content.resize(entry.offset, '\0');
  }

  void take(const Entry& entry) {
    if (entry.call == Call::kSync) {
      for (const Entry* waiting : pending[entry.object]) {
        if (is_about_names(waiting->call)) apply_name(*waiting);
        else apply_data(*waiting, WriteFate::kKept);
      }
      pending.erase(entry.object);
      return;
    }
    pending[is_about_names(entry.call) ? entry.folder : entry.object].push_back(&entry);
  }

  bool keeps_name() {
    if (fate == Fate::kRandom) return random.next() % 2 == 0;
    return fate != Fate::kAllLost && fate != Fate::kDataWithoutNames;
  }

  WriteFate fate_of_write(size_t number, size_t count) {
    switch (fate) {
      case Fate::kAllKept:
      case Fate::kDataWithoutNames: return WriteFate::kKept;
      case Fate::kAllLost:
      case Fate::kNamesWithoutData: return WriteFate::kLost;
      case Fate::kDataZeroed: return WriteFate::kZeroed;
      case Fate::kDataGarbled: return WriteFate::kGarbled;
      case Fate::kRandom: return static_cast<WriteFate>(random.next() % 5);
      case Fate::kDataTorn: break;
    }
    if (number < count / 2) return WriteFate::kKept;
    return number == count / 2 ? WriteFate::kCut : WriteFate::kLost;
  }

  void settle() {
    for (const auto& [object, entries] : pending) {
      for (size_t i = 0; i < entries.size(); ++i) {
        if (!is_about_names(entries[i]->call)) apply_data(*entries[i], fate_of_write(i, entries.size()));
        else if (keeps_name()) apply_name(*entries[i]);
      }
    }
  }

  void write_out(uint64_t folder, const std::string& path) const {
    const auto found = folders.find(folder);
    if (found == folders.end()) return;
    for (const auto& [name, object] : found->second) {
      const std::string at = path + "/" + name;
      if (folders.contains(object)) {
        std::filesystem::create_directory(at);
        write_out(object, at);
        continue;
      }
      const auto content = contents.find(object);
      std::ofstream(at, std::ios::binary) << (content == contents.end() ? "" : content->second);
    }
  }
};

void CrashDisk::restore(size_t count, Fate fate, uint64_t seed, const std::string& folder) const {
  Image image{{}, {}, {}, {seed * 2 + 1}, fate};
  image.folders[kRoot];
  for (size_t i = 0; i < count; ++i) {
    if (log_[i].call == Call::kMakeFolder) image.folders[log_[i].object];
    image.take(log_[i]);
  }
  image.settle();
  image.write_out(kRoot, folder);
}

std::string CrashDisk::describe(size_t number) const {
  const Entry& entry = log_[number];
  switch (entry.call) {
    case Call::kCreate: return "create " + entry.name;
    case Call::kMakeFolder: return "make folder " + entry.name;
    case Call::kWrite:
      return fmt::format("write {} bytes at {} to object {}", entry.bytes.size(), entry.offset, entry.object);
    case Call::kTruncate: return fmt::format("truncate object {} to {}", entry.object, entry.offset);
    case Call::kSync: return fmt::format("sync object {}", entry.object);
    case Call::kRename: return fmt::format("rename {} to {}", entry.name, entry.to);
    case Call::kExchange: return fmt::format("exchange {} and {}", entry.name, entry.to);
    case Call::kLink: return fmt::format("link {} as {}", entry.name, entry.to);
    case Call::kUnlink: return "unlink " + entry.name;
  }
  return "";
}

// ---------------------------------------------------------------- writing down

CrashDisk::CrashDisk(const std::string& root) {
  struct stat info {};
  if (::stat(root.c_str(), &info) != 0) std::abort();
  numbers_[info.st_ino] = kRoot;
  last_number_ = kRoot;
}

// 0 for what lies outside the disk.
uint64_t CrashDisk::number_of(int fd) const {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return 0;
  const auto found = numbers_.find(info.st_ino);
  return found == numbers_.end() ? 0 : found->second;
}

uint64_t CrashDisk::number_of(int folder, const char* name) const {
  struct stat info {};
  if (::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  const auto found = numbers_.find(info.st_ino);
  return found == numbers_.end() ? 0 : found->second;
}

int CrashDisk::open_at(int folder, const char* name, int flags, mode_t mode) const {
  struct stat info {};
  const bool creates = (flags & O_CREAT) != 0 && ::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0;
  const int fd = FileSystem::open_at(folder, name, flags, mode);
  if (fd < 0 || !creates || ::fstat(fd, &info) != 0) return fd;
  numbers_[info.st_ino] = ++last_number_;
  note({.call = Call::kCreate,
        .object = last_number_,
        .folder = number_of(folder),
        .name = name,
        .to = {},
        .bytes = {}});
  return fd;
}

ssize_t CrashDisk::write_at(int fd, const void* bytes, size_t length, off_t offset) const {
  const ssize_t done = FileSystem::write_at(fd, bytes, length, offset);
  if (done <= 0) return done;
  const auto* first = static_cast<const std::byte*>(bytes);
  note({.call = Call::kWrite,
        .object = number_of(fd),
        .name = {},
        .to = {},
        .offset = static_cast<uint64_t>(offset),
        .bytes = ByteVector(first, first + done)});
  return done;
}

int CrashDisk::truncate(int fd, off_t length) const {
  const int result = FileSystem::truncate(fd, length);
  if (result != 0) return result;
  note({.call = Call::kTruncate,
        .object = number_of(fd),
        .name = {},
        .to = {},
        .offset = static_cast<uint64_t>(length),
        .bytes = {}});
  return 0;
}

// The real disk need not be waited for: this one is what survives.
int CrashDisk::sync(int fd) const {
  note({.call = Call::kSync, .object = number_of(fd), .name = {}, .to = {}, .bytes = {}});
  return 0;
}

int CrashDisk::rename_at(int folder, const char* from, const char* to) const {
  const uint64_t object = number_of(folder, from);
  const int result = FileSystem::rename_at(folder, from, to);
  if (result != 0) return result;
  note({.call = Call::kRename, .object = object, .folder = number_of(folder), .name = from, .to = to, .bytes = {}});
  return 0;
}

int CrashDisk::rename_new_at(int folder, const char* from, const char* to) const {
  const uint64_t object = number_of(folder, from);
  const int result = FileSystem::rename_new_at(folder, from, to);
  if (result != 0) return result;
  note({.call = Call::kRename, .object = object, .folder = number_of(folder), .name = from, .to = to, .bytes = {}});
  return 0;
}

int CrashDisk::link_at(int folder, const char* from, const char* to) const {
  const int result = FileSystem::link_at(folder, from, to);
  if (result != 0) return result;
  note({.call = Call::kLink,
        .object = number_of(folder, from),
        .folder = number_of(folder),
        .name = from,
        .to = to,
        .bytes = {}});
  return 0;
}

int CrashDisk::unlink_at(int folder, const char* name) const {
  const uint64_t object = number_of(folder, name);
  const int result = FileSystem::unlink_at(folder, name);
  if (result != 0) return result;
  note({.call = Call::kUnlink, .object = object, .folder = number_of(folder), .name = name, .to = {}, .bytes = {}});
  return 0;
}

int CrashDisk::make_folder_at(int folder, const char* name, mode_t mode) const {
  const int result = FileSystem::make_folder_at(folder, name, mode);
  struct stat info {};
  if (result != 0 || ::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return result;
  numbers_[info.st_ino] = ++last_number_;
  note({.call = Call::kMakeFolder,
        .object = last_number_,
        .folder = number_of(folder),
        .name = name,
        .to = {},
        .bytes = {}});
  return 0;
}

int CrashDisk::exchange_at(int folder, const char* one, const char* other) const {
  const uint64_t object = number_of(folder, one), other_object = number_of(folder, other);
  const int result = FileSystem::exchange_at(folder, one, other);
  if (result != 0) return result;
  note({.call = Call::kExchange,
        .object = object,
        .folder = number_of(folder),
        .name = one,
        .to = other,
        .offset = other_object,
        .bytes = {}});
  return 0;
}

int CrashDisk::link_into(int from_folder, const char* name, int to_folder) const {
  const int result = FileSystem::link_into(from_folder, name, to_folder);
  if (result != 0) return result;
  note({.call = Call::kLink,
        .object = number_of(to_folder, name),
        .folder = number_of(to_folder),
        .name = name,
        .to = name,
        .bytes = {}});
  return 0;
}

int CrashDisk::remove_folder_at(int folder, const char* name) const {
  const uint64_t object = number_of(folder, name);
  const int result = FileSystem::remove_folder_at(folder, name);
  if (result != 0) return result;
  note({.call = Call::kUnlink, .object = object, .folder = number_of(folder), .name = name, .to = {}, .bytes = {}});
  return 0;
}

void for_every_crash(const CrashDisk& disk, size_t first, uint64_t seeds,
                     const std::function<void(size_t stop, const std::string& root)>& check) {
  for (size_t stop = first; stop <= disk.size() && !::testing::Test::HasFailure(); ++stop) {
    const auto check_one = [&](Fate fate, uint64_t seed) {
      const TempFolder folder;
      disk.restore(stop, fate, seed, folder.path());
      SCOPED_TRACE(fmt::format("stopped after call {} of {} ({}), fate {}, seed {}", stop, disk.size(),
                               stop == 0 ? "nothing" : disk.describe(stop - 1), static_cast<int>(fate), seed));
      check(stop, folder.path());
    };
    for (const Fate fate : kFates) check_one(fate, 0);
    for (uint64_t seed = 0; seed < seeds; ++seed) check_one(Fate::kRandom, stop * 1000 + seed);
  }
}

}  // namespace ballast::testing
