// Opening paths. What is the same for files in memory is in open.cc.
#include <filesystem>
#include <optional>
#include <utility>

#include "ballast/archive/file_set.h"
#include "ballast/archive/find_weights.h"
#include "ballast/archive/open.h"
#include "ballast/io/file_system.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// A disk that does not answer must not pass for a file that is absent: another one would be read in its place.
Result<bool> is_file(const fs::path& path) { return ballast::is_file(os_file_system(), path.string()); }

Result<ResolvedPath> resolve_file(const fs::path& path, const OpenOptions& options, std::string companion = {}) {
  BALLAST_TRY(auto source, open_file(path.string(), options.access));
  ResolvedPath resolved;
  resolved.siblings = make_folder_siblings(path.string(), options.access);
  resolved.request = {std::move(source), path.filename().string(), std::move(companion), resolved.siblings.get()};
  return resolved;
}

// netcl's pairs share a prefix; a dotted prefix loses its last suffix in the name of the JSON half.
using PairPaths = std::optional<std::pair<fs::path, fs::path>>;
Result<PairPaths> find_pair(const std::string& prefix) {
  const fs::path npz = prefix + ".npz";
  BALLAST_TRY(const bool has_npz, is_file(npz));
  if (!has_npz) return PairPaths();
  for (const fs::path& json : {fs::path(prefix + ".json"), fs::path(prefix).replace_extension(".json")}) {
    BALLAST_TRY(const bool has_json, is_file(json));
    if (has_json) return PairPaths(std::pair(json, npz));
  }
  return PairPaths();
}

}  // namespace

Result<ResolvedPath> resolve_path(const std::string& path, const OpenOptions& options) {
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);  // "not found" also for a path that is too long
  if (fs::is_directory(found)) {
    BALLAST_TRY(const std::string name, find_weights(*make_folder_files(path)));
    return resolve_file(fs::path(path) / name, options);
  }
  if (fs::exists(found)) return resolve_file(path, options);
  if (auto pair = find_pair(path); pair && *pair) {
    return resolve_file((*pair)->first, options, (*pair)->second.filename().string());
  }
  if (const auto single = is_file(path + ".netcl"); single && *single) return resolve_file(path + ".netcl", options);
  return resolve_file(path, options);  // for the operating system's own words on why not
}

Result<Archive> open_archive(const std::string& path, const OpenOptions& options) {
  return guarded([&]() -> Result<Archive> {
    BALLAST_TRY(const ResolvedPath resolved, resolve_path(path, options));
    BALLAST_TRY(const bool is_a_folder, is_folder(os_file_system(), path));
    return is_a_folder ? open_in_folder(resolved, *make_folder_files(path)) : open_resolved(resolved);
  });
}

}  // namespace ballast
