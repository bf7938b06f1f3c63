// Locks that one process of this user waits for while another holds them.
#pragma once

#include <string>

#include "ballast/io/file_system.h"

namespace ballast::cli {

// The lock of a file that exists for nothing else; it and its folder are created where they are missing. kCancelled at
// Ctrl-C. A file system without locks gives one that protects nothing.
Result<OwnedFd> take_lock_file(const std::string& path);

// The lock of a file that is to be replaced by a version made from it: whoever takes it as well waits, and then sees
// the new version. What cannot be opened is not locked; reading it says why.
Result<OwnedFd> lock_to_replace(const std::string& path);

}  // namespace ballast::cli
