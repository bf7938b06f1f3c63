#include "apps/ballast/models/kernel_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "apps/ballast/models/model_cache.h"
#include "ballast/backends/opencl.h"
#include "ballast/io/list_folder.h"

namespace ballast::cli {

namespace fs = std::filesystem;

Result<std::string> kernel_cache_folder() {
  BALLAST_TRY(const ModelCache models, ModelCache::of_user());
  return (fs::path(models.folder()).parent_path() / "opencl").string();
}

void use_kernel_cache() {
  const auto folder = kernel_cache_folder();
  if (!folder) return;
  std::error_code failure;
  fs::create_directories(*folder, failure);
  if (!failure) set_opencl_cache(*folder);
}

Result<uint64_t> kernel_cache_bytes() {
  BALLAST_TRY(const std::string folder, kernel_cache_folder());
  return bytes_below(folder);
}

Result<uint64_t> clear_kernel_cache() {
  BALLAST_TRY(const std::string folder, kernel_cache_folder());
  BALLAST_TRY(const uint64_t bytes, bytes_below(folder));
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (!failure) return bytes;
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot remove it: {}", folder, failure.message()));
}

}  // namespace ballast::cli
