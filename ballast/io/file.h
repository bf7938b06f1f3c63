// Files as byte sources, and files that appear whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/base/byte_source.h"

namespace ballast {

class FileSystem;

// ---------------------------------------------------------------- reading

enum class FileAccess : uint8_t {
  // Zero-copy; a file truncated while mapped kills the process with SIGBUS. Where the file system cannot map, or the
  // address space is too small, the source reads instead and its view() is nullopt.
  kMapped,
  // The same, and the views may be written to: what is changed is a copy of this process's, never the file.
  kCopyOnWrite,
  // pread: survives the file changing underneath, at the price of a copy. A file that shrank is kIo.
  kPositional,
};

// Refuses anything that is not a regular file (a FIFO would hang, a folder has no bytes), with a text that says so.
// Never waits. The source keeps the file it opened even when another is renamed over the path.
// `files` (null = the operating system) must outlive the source.
Result<std::shared_ptr<const ByteSource>> open_file(const std::string& path, FileAccess access,
                                                    const FileSystem* files = nullptr);

// Opens plain names in the folder of `path`. A name with a folder part is kCorrupt: it stands in a file, and a file has
// no business outside its folder. Symbolic links in the folder are followed: the user put them there.
std::unique_ptr<SiblingOpener> make_folder_siblings(const std::string& path, FileAccess access);

// Which file a path named, and in which state, when it was looked at. Equal versions have the same content, as far as
// the file system's clock can tell.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t changed_seconds = 0;
  int64_t changed_nanoseconds = 0;

  bool operator==(const FileVersion&) const = default;
};
// Follows symbolic links. `files` null: the operating system's.
Result<FileVersion> version_of(const std::string& path, const FileSystem* files = nullptr);

// ---------------------------------------------------------------- writing

struct CommitOptions {
  bool overwrite = false;
  bool sync = true;  // fsync data and folder, so that the result survives a power failure
  // Where the files are; null = the operating system. Tests pass one that fails. Must outlive the AtomicFiles.
  const FileSystem* file_system = nullptr;
  // The file that the new one was made from, where it takes its place: had somebody changed it meanwhile, their change
  // would be lost, so commit() fails with kExists. For sets of one file.
  std::optional<FileVersion> replaced = std::nullopt;
};

// A set of files that become visible together: each is written beside its destination under a name that marks it as
// temporary, then all are synced and renamed in the order of creation.
// The last rename is the commit.
//
// - Whatever fails, and whenever the process is killed, each destination is what it was or the whole new file.
// - Dropping the object without commit() removes every temporary.
// - Temporaries of writers that were killed are removed by the next writer to the same destination: a living writer
//   holds a lock on its temporary, a dead one does not. Where the file system has no locks, they are left alone.
// - A destination that is a symbolic link stays one; the file it points to is replaced (or created).
// - A replaced file hands its permission bits, and as far as the user may its owner, to the new one. Other hard
//   links to it keep the old content.
// - A new file gets the bits that the umask allows.
// - A file that the user may not write to is not replaced, although its folder would permit it.
// - Missing folders are not created.
// - Without leave to overwrite, a file that appears at the destination while this one is being written stays, and
//   commit() fails with kExists.
//
// One thread at a time; each sink may be used by a thread of its own between add() and commit(). One open file
// descriptor per file, one per folder, and at most 128 KiB of memory per file.
class AtomicFiles {
 public:
  explicit AtomicFiles(CommitOptions options);
  ~AtomicFiles();
  AtomicFiles(const AtomicFiles&) = delete;
  AtomicFiles& operator=(const AtomicFiles&) = delete;

  // A sink for one more file of the set, valid until commit(). Fails at once when the destination is a folder, cannot
  // be written, or exists without leave to overwrite. `expected_size` (0 = unknown) reserves disk space, so that a full
  // disk is told early.
  Result<ByteSink*> add(const std::string& destination, uint64_t expected_size);
  // The same for a file that must be new even with leave to overwrite: its name was chosen because it was free.
  Result<ByteSink*> add_new(const std::string& destination, uint64_t expected_size);

  // A file in the folder of one of the set's that nothing needs any more once the set is there: removed after the
  // commit, unless another writer holds it. That it could not be removed is no failure.
  void remove_after_commit(std::string path) { superseded_.push_back(std::move(path)); }

  // Once, whatever the outcome. A failure of any write is a failure here too. When a rename fails after earlier ones,
  // files that are new are taken back, and the text names those that already replaced their predecessors.
  Status commit();

 private:
  struct Entry;
  Result<ByteSink*> add_entry(const std::string& destination, uint64_t expected_size, bool replace);
  bool is_unchanged(const Entry& entry) const;
  void remove_superseded() const;
  Status prepare(Entry& entry);
  Status publish_all();
  Status sync_folders();
  Error take_back(size_t published, Error cause);

  CommitOptions options_;
  const FileSystem& files_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::string> superseded_;
  bool finished_ = false;
};

// Removes every temporary of this process; async-signal-safe, for handlers of fatal signals. What is being written then
// fails to commit.
//
// A handler can reach only what is global, so the temporaries stand in a fixed table of atomics: the one mutable global
// of this layer. When a process writes more files at once than the table holds, those beyond it are left to the next
// writer. A child after fork() leaves its parent's temporaries alone.
void remove_temporaries_on_signal() noexcept;

}  // namespace ballast
