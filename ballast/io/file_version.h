// FileVersion (io/file.h) from what the operating system says of a file.
#pragma once

#include <sys/stat.h>

#include "ballast/io/file.h"

namespace ballast {

FileVersion version_of(const struct stat& info);

}  // namespace ballast
