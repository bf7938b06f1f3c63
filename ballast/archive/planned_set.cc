#include "ballast/archive/planned_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ballast/io/work_folder.h"

namespace ballast {

namespace {

// Whether a file of the set is there already. The last one of an indexed set may be: replacing it is the commit.
Result<bool> is_any_taken(const FileSystem& files, const std::string& destination, const PlannedSet& set) {
  const size_t count = set.write->files().size() - (set.write->is_indexed() ? 1 : 0);
  for (size_t i = 0; i < count; ++i) {
    BALLAST_TRY(const bool taken, is_taken(files, set.path_of(destination, i)));
    if (taken) return true;
  }
  return false;
}

// `taken`: names that the set would have had, were they free.
Status find_superseded(const FileSystem& files, const std::string& destination, const std::vector<std::string>& taken,
                       PlannedSet& set) {
  const std::string index_path = set.path_of(destination, set.write->files().size() - 1);
  const auto folder = WorkFolder::open(split_path(index_path).folder, files);
  if (!folder && folder.error().code == ErrorCode::kNotFound) return {};  // writing into it tells so
  if (!folder) return folder.error();
  BALLAST_TRY(const auto names, folder->list());
  std::shared_ptr<const ByteSource> old_index;
  BALLAST_TRY(const bool is_there, is_taken(files, index_path));
  if (is_there) {
    // Read here: what the driver cannot parse names no shards, but a disk that does not answer is an error.
    BALLAST_TRY(const auto opened, open_file(index_path, FileAccess::kPositional, &files));
    BALLAST_TRY(ByteVector bytes, read_bytes(*opened, 0, opened->size()));
    old_index = MemorySource::owning(std::move(bytes), index_path);
  }
  // What a killed writer had not yet renamed goes with what it had.
  std::vector<std::string> owners;
  for (const std::string& name : names) owners.emplace_back(is_temporary(name) ? owner_of_temporary(name) : name);
  const std::vector<std::string> old = set.write->find_superseded(old_index.get(), owners);
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_old = std::ranges::find(old, owners[i]) != old.end();
    const bool is_unfinished = is_temporary(names[i]) && std::ranges::find(taken, owners[i]) != taken.end();
    if (is_old || is_unfinished) set.superseded.push_back(path_beside(index_path, names[i]));
  }
  return {};
}

}  // namespace

std::string PlannedSet::path_of(const std::string& destination, size_t file) const {
  const std::string& name = write->files()[file].file_name;
  if (name.empty()) return destination;
  return (std::filesystem::path(destination).parent_path() / name).string();
}

Result<PlannedSet> plan_set(const std::string& destination, const FormatDriver& format, WriteRequest request,
                            const CommitOptions& commit) {
  constexpr uint32_t kMostGenerations = 1000;
  PlannedSet set;
  BALLAST_TRY(set.write, format.plan_write(request));
  // Without leave to overwrite nothing is replaced.
  if (set.write->files().size() < 2 || !commit.overwrite) return set;
  const FileSystem& files = commit.file_system != nullptr ? *commit.file_system : os_file_system();
  std::vector<std::string> taken;
  for (;;) {
    BALLAST_TRY(const bool is_taken_now, is_any_taken(files, destination, set));
    if (!is_taken_now) break;
    for (const PlannedFile& file : set.write->files()) taken.push_back(file.file_name);
    if (++request.generation > kMostGenerations) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{}: {} earlier sets of files are beside it; remove those that nothing needs",
                                    destination, kMostGenerations));
    }
    BALLAST_TRY(set.write, format.plan_write(request));
    if (!set.write->is_indexed()) return set;
  }
  if (set.write->is_indexed()) BALLAST_CHECK(find_superseded(files, destination, taken, set));
  return set;
}

}  // namespace ballast
