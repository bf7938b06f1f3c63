// Pictures from PNG and JPEG files.
#pragma once

#include <string>

#include "ballast/models/model_input.h"

namespace ballast::cli {

// Told apart by content. Grey, indexed and transparent pictures become plain colours (on black). At most 64 million
// pixels, checked before any memory is taken.
Result<Picture> read_picture(const std::string& path);

}  // namespace ballast::cli
