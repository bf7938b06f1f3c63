// The folder that huggingface_hub keeps models in, written and read as that program does it, so that each uses what the
// other downloaded:
//
//   models--ORG--NAME/blobs/DIGEST            the files, under the SHA-256 or Git digest that the hub names
//   models--ORG--NAME/snapshots/COMMIT/PATH   links to them
//   models--ORG--NAME/refs/REVISION           the commit that a branch or tag was when it was last fetched
//   .locks/models--ORG--NAME/DIGEST.lock      held while a blob is written
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/models/hub_name.h"
#include "ballast/base/progress.h"
#include "ballast/base/result.h"
#include "ballast/io/file_system.h"

namespace ballast::cli {

class HubCache {
 public:
  static Result<HubCache> of_user();
  explicit HubCache(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string repository(const std::string& id) const;
  std::string blob(const std::string& id, const std::string& digest) const;
  // `path` may be empty: the folder itself.
  std::string snapshot(const std::string& id, const std::string& commit, const std::string& path) const;

  // The commit of a revision, where a snapshot of it is here.
  std::optional<std::string> commit_of(const HubName& name) const;
  // Paths in the snapshot whose files are really there, sorted.
  Result<std::vector<std::string>> files_of(const std::string& id, const std::string& commit) const;

  // Makes the repository's folders. kIo where they cannot be written to, which is better known before a download.
  Status prepare(const std::string& id) const;
  // A lock on one blob, which goes with the descriptor. Waits for another program that holds it.
  Result<OwnedFd> lock(const std::string& id, const std::string& digest) const;
  Status link(const std::string& id, const std::string& commit, const std::string& path,
              const std::string& digest) const;
  Status set_reference(const HubName& name, const std::string& commit) const;

  struct Entry {
    std::string id;
    uint64_t bytes = 0;
  };
  // Every model in the folder, by name.
  Result<std::vector<Entry>> list() const;
  // Compares the blobs with the digests that are their names. kCorrupt names the first that differs.
  Status verify(const std::string& id, const Progress& progress) const;
  // Bytes that were freed.
  Result<uint64_t> remove(const std::string& id) const;

 private:
  std::string folder_;
};

}  // namespace ballast::cli
