// The shortest text of a finite number, which is std::to_chars's, without its tables.
#pragma once

#include <string>

namespace ballast::wasm {

std::string shortest_real(double value);

}  // namespace ballast::wasm
