// Which file of a folder its weights are in.
#pragma once

#include <string>

#include "ballast/base/result.h"

namespace ballast {

class FileSet;

// The name of the file among them that holds the weights, or the index of those that do.
Result<std::string> find_weights(const FileSet& files);

}  // namespace ballast
