// Streams that can be read or written once only (pipes), and the files that stand in for them where that is not enough.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ballast/io/file.h"
#include "ballast/io/file_sink.h"
#include "ballast/io/file_system.h"

namespace ballast {

// A file without a name: it takes what is written and gives it back, and is gone with the object, however the process
// ends.
class SpoolFile {
 public:
  // In `folder`, whose disk must have the room. `files` (null = the operating system) must outlive everything here.
  static Result<SpoolFile> create(const std::string& folder, const FileSystem* files = nullptr);

  ByteSink& sink() { return *sink_; }
  // Everything written so far, under this name. Nothing may be written after it.
  Result<std::shared_ptr<const ByteSource>> to_source(const std::string& name, FileAccess access) &&;

 private:
  SpoolFile(const FileSystem& files, OwnedFd fd, const std::string& shown);

  const FileSystem* files_;
  OwnedFd fd_;
  std::unique_ptr<FileSink> sink_;
};

// What comes through `fd`, which stays the caller's: read to its end into a SpoolFile in `folder`. A regular file (`<
// model.npz`) that stands at its beginning is used as it is. `name` is what errors call the stream.
Result<std::shared_ptr<const ByteSource>> open_stream(int fd, const std::string& name, const std::string& folder,
                                                      FileAccess access, const FileSystem* files = nullptr);

// Sequential output to `fd`, which stays the caller's and may be a pipe. Nothing can be patched. The first failure
// sticks. SIGPIPE must be ignored by the process.
class PipeSink final : public ByteSink {
 public:
  // `files` (null = the operating system) must outlive it.
  PipeSink(int fd, std::string name, const FileSystem* files = nullptr);

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t offset, ByteSpan bytes) override;
  uint64_t position() const override { return position_; }

  // Hands over what was gathered.
  Status flush();
  // The reader closed its end: whatever failed, nobody waits for the rest.
  bool reader_is_gone() const { return reader_is_gone_; }

 private:
  Status send(ByteSpan bytes);

  const FileSystem& files_;
  int fd_;
  std::string name_;
  ByteVector gathered_;
  uint64_t position_ = 0;
  bool reader_is_gone_ = false;
  std::optional<Error> failure_;
};

// Writes all of `source` to `sink`, in pieces.
Status copy_source(const ByteSource& source, ByteSink& sink);

}  // namespace ballast
