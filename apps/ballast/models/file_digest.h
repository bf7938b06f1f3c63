// Digests under which servers publish files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/archive/sha.h"
#include "ballast/base/progress.h"
#include "ballast/base/result.h"

namespace ballast::cli {

struct FileDigest {
  enum class Kind : unsigned char { kNone, kSha256, kGitBlob };

  Kind kind = Kind::kNone;
  std::string hex;

  // 64 hexadecimal digits are a SHA-256, 40 are Git's digest of a blob; anything else says nothing.
  static FileDigest of_blob_name(std::string_view name);
  std::string_view kind_name() const { return kind == Kind::kSha256 ? "SHA-256" : "Git SHA-1"; }
};

// Takes a file of `size` bytes from its beginning.
class FileDigester {
 public:
  FileDigester(FileDigest expected, uint64_t size);
  void update(ByteSpan bytes) {
    if (hasher_) hasher_->update(bytes);
  }
  // Once, when all bytes were taken: kCorrupt where the digest is another.
  Status finish(std::string_view what);

 private:
  FileDigest expected_;
  std::optional<ShaHasher> hasher_;
};

// The same for a file on the disk.
Status check_digest(const std::string& path, const FileDigest& expected, const Progress& progress);

}  // namespace ballast::cli
