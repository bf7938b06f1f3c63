// A disk with a volatile cache: what a machine that stops at any instant may find on it afterwards.
//
// A program runs once on the real file system while every call that changes something is written down. Stopping the
// world before or after any of these calls is then a matter of taking the first n of them and deciding what became of
// those that were not synced.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/io/file_system.h"

namespace ballast::testing {

// What became of changes that nobody had synced when the world stopped. Bytes written to a file last until that file is
// synced, names (creating, renaming, removing) until their folder is.
enum class Fate : uint8_t {
  kAllKept,
  kAllLost,
  kNamesWithoutData,  // files stand under their new names, empty or old
  kDataTorn,          // names kept; of the bytes the first half, the last write cut in the middle
  kDataZeroed,        // names kept; the files have their lengths and zeros
  kDataGarbled,       // names kept; the files have their lengths and rubbish in every other page
  kDataWithoutNames,
  kRandom,  // each change has a fate of its own; depends on the seed
};
inline constexpr Fate kFates[] = {Fate::kAllKept,    Fate::kAllLost,     Fate::kNamesWithoutData, Fate::kDataTorn,
                                  Fate::kDataZeroed, Fate::kDataGarbled, Fate::kDataWithoutNames};

class CrashDisk final : public FileSystem {
 public:
  // Everything happens in this folder, which is empty at first.
  explicit CrashDisk(const std::string& root);

  // Calls written down so far.
  size_t size() const { return log_.size(); }
  // "rename_at .a.tmp -> a"
  std::string describe(size_t number) const;

  // Makes `folder`, which must be empty, what the disk holds when the world stopped after the first `count` calls.
  void restore(size_t count, Fate fate, uint64_t seed, const std::string& folder) const;

  int open_at(int folder, const char* name, int flags, mode_t mode) const override;
  ssize_t write_at(int fd, const void* bytes, size_t length, off_t offset) const override;
  int truncate(int fd, off_t length) const override;
  int sync(int fd) const override;
  int rename_at(int folder, const char* from, const char* to) const override;
  int rename_new_at(int folder, const char* from, const char* to) const override;
  int link_at(int folder, const char* from, const char* to) const override;
  int unlink_at(int folder, const char* name) const override;
  int exchange_at(int folder, const char* one, const char* other) const override;
  int link_into(int from_folder, const char* name, int to_folder) const override;
  int make_folder_at(int folder, const char* name, mode_t mode) const override;
  int remove_folder_at(int folder, const char* name) const override;

 private:
  enum class Call : uint8_t { kCreate, kMakeFolder, kWrite, kTruncate, kSync, kRename, kExchange, kLink, kUnlink };
  struct Entry {
    Call call;
    uint64_t object;      // the file or folder that is written, synced or named
    uint64_t folder = 0;  // for names
    std::string name;
    std::string to;
    uint64_t offset = 0;  // or the length, for kTruncate; the object called `to` before, for kExchange
    ByteVector bytes;
  };
  struct Image;

  uint64_t number_of(int fd) const;
  uint64_t number_of(int folder, const char* name) const;
  void note(Entry entry) const { log_.push_back(std::move(entry)); }

  mutable std::map<uint64_t, uint64_t> numbers_;  // of inodes: those of removed files are used again, our numbers never
  mutable uint64_t last_number_ = 0;
  mutable std::vector<Entry> log_;
};

// Calls `check` with a folder for every stop from `first` on and every fate, `seeds` random ones among them; ends at
// the first failure.
void for_every_crash(const CrashDisk& disk, size_t first, uint64_t seeds,
                     const std::function<void(size_t stop, const std::string& root)>& check);

}  // namespace ballast::testing
