#include "apps/ballast/models/hub_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/ballast/models/file_digest.h"
#include "apps/ballast/models/file_lock.h"
#include "apps/ballast/models/hub_settings.h"
#include "apps/ballast/output/text.h"
#include "ballast/io/file.h"
#include "ballast/io/list_folder.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";

Error hub_cache_error(const fs::path& path, std::string_view action, const std::string& reason) {
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}; HF_HUB_CACHE can name another folder",
                                                path.string(), action, reason));
}

Status make_folders(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) return hub_cache_error(path, "create the folder", failure.message());
  return {};
}

std::string folder_name_of(const std::string& id) {
  std::string name(kModelPrefix);
  for (const char c : id) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

std::optional<std::string> id_of(std::string_view folder) {
  if (!folder.starts_with(kModelPrefix)) return std::nullopt;
  std::string id(folder.substr(kModelPrefix.size()));
  if (const size_t at = id.find("--"); at != std::string::npos) id.replace(at, 2, "/");
  return id;
}

Result<uint64_t> blob_bytes(const fs::path& repository) { return bytes_below((repository / "blobs").string()); }

std::string read_small_file(const fs::path& path) {
  const auto source = open_file(path.string(), FileAccess::kPositional);
  if (!source || (*source)->size() > 256) return "";
  const auto bytes = read_bytes(**source, 0, (*source)->size());
  return bytes ? std::string(as_text(*bytes)) : "";
}

}  // namespace

Result<HubCache> HubCache::of_user() {
  BALLAST_TRY(std::string folder, hub_cache_folder());
  return HubCache(std::move(folder));
}

std::string HubCache::repository(const std::string& id) const {
  return (fs::path(folder_) / folder_name_of(id)).string();
}

std::string HubCache::blob(const std::string& id, const std::string& digest) const {
  return (fs::path(repository(id)) / "blobs" / digest).string();
}

std::string HubCache::snapshot(const std::string& id, const std::string& commit, const std::string& path) const {
  const fs::path folder = fs::path(repository(id)) / "snapshots" / commit;
  return (path.empty() ? folder : folder / path).string();
}

std::optional<std::string> HubCache::commit_of(const HubName& name) const {
  std::error_code ignored;
  if (is_commit_name(name.revision) && fs::is_directory(snapshot(name.id, name.revision, ""), ignored)) {
    return name.revision;
  }
  std::string commit = read_small_file(fs::path(repository(name.id)) / "refs" / name.revision);
  while (commit.ends_with('\n')) commit.pop_back();
  if (!is_commit_name(commit) || !fs::is_directory(snapshot(name.id, commit, ""), ignored)) return std::nullopt;
  return commit;
}

Result<std::vector<std::string>> HubCache::files_of(const std::string& id, const std::string& commit) const {
  BALLAST_TRY(const auto found, files_below(snapshot(id, commit, "")));
  std::vector<std::string> paths;
  for (const FolderFile& file : found) paths.push_back(file.path);
  return paths;
}

Status HubCache::prepare(const std::string& id) const {
  for (const char* part : {"blobs", "snapshots", "refs"}) {
    const fs::path folder = fs::path(repository(id)) / part;
    BALLAST_CHECK(make_folders(folder));
    if (::access(folder.c_str(), W_OK | X_OK) != 0) return hub_cache_error(folder, "write there", std::strerror(errno));
  }
  return {};
}

Result<OwnedFd> HubCache::lock(const std::string& id, const std::string& digest) const {
  const fs::path path = fs::path(folder_) / ".locks" / folder_name_of(id) / (digest + ".lock");
  BALLAST_CHECK(make_folders(path.parent_path()));
  // Where the file system has no locks, two downloads of one file at once are the user's business.
  return take_lock_file(path.string());
}

// The link appears whole: under another name first, which is then moved over whatever stands there.
Status HubCache::link(const std::string& id, const std::string& commit, const std::string& path,
                      const std::string& digest) const {
  const fs::path pointer = snapshot(id, commit, path);
  BALLAST_CHECK(make_folders(pointer.parent_path()));
  const fs::path target = fs::path(blob(id, digest)).lexically_relative(pointer.parent_path());
  std::error_code failure;
  if (fs::read_symlink(pointer, failure) == target && fs::exists(pointer, failure)) return {};
  const fs::path fresh = pointer.string() + fmt::format(".{}.tmp", ::getpid());
  fs::remove(fresh, failure);
  fs::create_symlink(target, fresh, failure);
  if (failure) {  // a file system without links: huggingface_hub moves the file there, too
    fs::rename(blob(id, digest), pointer, failure);
  } else {
    fs::rename(fresh, pointer, failure);
  }
  if (!failure) return {};
  std::error_code ignored;
  fs::remove(fresh, ignored);
  return hub_cache_error(pointer, "link it", failure.message());
}

Status HubCache::set_reference(const HubName& name, const std::string& commit) const {
  if (name.revision == commit) return {};
  const fs::path path = fs::path(repository(name.id)) / "refs" / name.revision;
  if (read_small_file(path) == commit) return {};
  BALLAST_CHECK(make_folders(path.parent_path()));
  AtomicFiles files({.overwrite = true, .sync = true, .file_system = nullptr});
  BALLAST_TRY(ByteSink* const sink, files.add(path.string(), commit.size()));
  BALLAST_CHECK(sink->write_text(commit));
  return files.commit();
}

// ---------------------------------------------------------------- looking after it

Result<std::vector<HubCache::Entry>> HubCache::list() const {
  std::vector<Entry> entries;
  BALLAST_TRY(const bool is_there, is_taken(os_file_system(), folder_));
  if (!is_there) return entries;
  BALLAST_TRY(const std::vector<std::string> names, names_in_folder(folder_));
  for (const std::string& name : names) {
    const auto id = id_of(name);
    if (!id) continue;
    BALLAST_TRY(const uint64_t bytes, blob_bytes(fs::path(folder_) / name));
    entries.push_back({*id, bytes});
  }
  std::ranges::sort(entries, {}, &Entry::id);
  return entries;
}

Status HubCache::verify(const std::string& id, const Progress& progress) const {
  const fs::path folder = fs::path(repository(id)) / "blobs";
  uint64_t done = 0;
  BALLAST_TRY(const uint64_t total, blob_bytes(repository(id)));
  BALLAST_TRY(const std::vector<FolderFile> blobs, files_below(folder.string()));
  for (const auto& [name, bytes] : blobs) {
    const FileDigest expected = FileDigest::of_blob_name(name);
    if (expected.kind == FileDigest::Kind::kNone) continue;  // a download that is not finished
    const auto advance = [&](const ProgressUpdate& update) {
      return report_progress(progress, {.activity = "checking", .done = done + update.done, .total = total})
          .has_value();
    };
    BALLAST_CHECK(check_digest((folder / name).string(), expected, advance));
    done += bytes;
  }
  return {};
}

Result<uint64_t> HubCache::remove(const std::string& id) const {
  BALLAST_TRY(const uint64_t bytes, blob_bytes(repository(id)));
  std::error_code failure;
  fs::remove_all(repository(id), failure);
  if (failure) return hub_cache_error(repository(id), "remove it", failure.message());
  fs::remove_all(fs::path(folder_) / ".locks" / folder_name_of(id), failure);
  return bytes;
}

}  // namespace ballast::cli
