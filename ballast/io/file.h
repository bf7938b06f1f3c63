// Files as byte sources, and files that appear whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/formats/format.h"

namespace ballast {

enum class FileAccess : uint8_t {
  kMapped,      // zero-copy; a file truncated while mapped kills the process with SIGBUS
  kPositional,  // pread: survives the file changing underneath, at the price of a copy
};

// Refuses anything that is not a regular file (a FIFO would hang, a folder has no bytes), with a text that says so.
Result<std::shared_ptr<const ByteSource>> open_file(const std::string& path, FileAccess access);

// Opens plain names in the folder of `path`.
std::unique_ptr<SiblingOpener> make_folder_siblings(const std::string& path, FileAccess access);

struct CommitOptions {
  bool overwrite = false;
  bool sync = true;  // fsync data and folder, so that the result survives a power failure
};

// A set of files that become visible together: each is written beside its destination under a name that marks it as
// temporary, then all are synced and renamed in the order of creation; the last rename is the commit. Dropping the
// object without commit() removes every temporary. Temporaries of writers that were killed are removed by the next
// writer to the same destination.
class AtomicFiles {
 public:
  explicit AtomicFiles(CommitOptions options);
  ~AtomicFiles();
  AtomicFiles(const AtomicFiles&) = delete;
  AtomicFiles& operator=(const AtomicFiles&) = delete;

  // A sink for one more file of the set. Fails at once when the destination is a folder, cannot be written, or exists
  // without leave to overwrite. `expected_size` (0 = unknown) reserves disk space, so that a full disk is told early.
  Result<ByteSink*> add(const std::string& destination, uint64_t expected_size);
  Status commit();

 private:
  struct Entry;
  CommitOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool committed_ = false;
};

// Removes every temporary of this process; async-signal-safe, for handlers of fatal signals.
void remove_temporaries_on_signal() noexcept;

}  // namespace ballast
