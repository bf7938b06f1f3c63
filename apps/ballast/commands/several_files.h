// Commands that look at several files, one after the other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"

namespace ballast::cli {

struct FileOutcome {
  int exit_code = kExitYes;
  std::string json = {};  // the object of this file, with --json; otherwise `look` has printed its text
};
using LookAtFile = std::function<Result<FileOutcome>(const std::string& path)>;

// A file that fails does not keep the others from being looked at; the exit code is the highest of all. With `json`,
// one path gives its object, several {"files":[...]} with {"path","error"} for those that failed.
int look_at_files(const std::vector<std::string>& paths, bool json, Console& console, const LookAtFile& look);

}  // namespace ballast::cli
