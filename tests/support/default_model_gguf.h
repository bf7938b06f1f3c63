// The model that comes with Ballast as a GGUF file: matrices lie [out, in] there, so that inputs run along the blocks.
#pragma once

#include <string>

namespace ballast::testing {

// Fails the test where it cannot be written.
void write_default_model_gguf(const std::string& path);

}  // namespace ballast::testing
