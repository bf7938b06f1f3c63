// Compiled kernels of the backend opencl: a folder beside the downloaded models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::cli {

// What `ballast cache` calls them.
inline constexpr std::string_view kKernelCacheName = "opencl-kernels";

// From now on the backend keeps what it compiles. Where there can be no such folder, it compiles anew each time.
void use_kernel_cache();
// kNotFound where the environment names no folder for caches.
Result<std::string> kernel_cache_folder();
// Of all files; 0 where there are none.
Result<uint64_t> kernel_cache_bytes();
// Removes them, and gives how many bytes they had.
Result<uint64_t> clear_kernel_cache();

}  // namespace ballast::cli
