// One file from a server to the disk: continued where an earlier attempt ended, and checked.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/ballast/models/file_digest.h"
#include "apps/ballast/models/http_session.h"
#include "ballast/base/progress.h"

namespace ballast::cli {

struct FileDownload {
  Url url;
  std::string name;  // for messages
  // Where the bytes go while they are not whole. What stands there is continued.
  std::string unfinished;
  // Where the file appears once it is whole and right.
  std::string finished;
  std::optional<uint64_t> bytes;
  FileDigest digest;
  // An answer that is no success.
  std::function<Error(const HttpHead&)> refusal;
};

// The bytes of the whole file. What arrives wrong is removed; what arrived so far of a broken or interrupted download,
// or before the disk was full, stays for the next attempt. `progress` counts this file alone.
Result<uint64_t> download_file(HttpSession& session, const FileDownload& download, const Progress& progress);

}  // namespace ballast::cli
