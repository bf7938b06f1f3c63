// Which instruction sets the processor and the operating system offer this process.
#pragma once

#include <string_view>
#include <vector>

namespace ballast::cli {

// "avx2", "amx-int8", "i8mm", ...: only those that faster kernels could use; empty on other kinds of processors.
std::vector<std::string_view> cpu_features();

}  // namespace ballast::cli
