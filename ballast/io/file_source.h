// A byte source over a file that is open already.
#pragma once

#include <memory>
#include <string>

#include "ballast/io/file.h"
#include "ballast/io/file_system.h"

namespace ballast {

// `name` is what errors call it. `files` must outlive the source.
std::shared_ptr<const ByteSource> make_file_source(const FileSystem& files, const std::string& name, OwnedFd fd,
                                                   uint64_t size, FileAccess access);

}  // namespace ballast
