#include "apps/ballast/server/lens_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "ballast/archive/open.h"
#include "ballast/io/file_system.h"
#include "ballast/io/list_folder.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

// More than any model has. A page with so many could not be read, and a folder with more was hardly meant.
constexpr size_t kMostLensFiles = 10'000;

// ---------------------------------------------------------------- finding

Result<std::string> real_path(const std::string& path) {
  std::error_code failure;
  std::string real = fs::canonical(path, failure).string();
  if (failure) return path_error(path, "look at it", failure.value());
  return real;
}

bool is_inside(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         (folder.ends_with('/') || path[folder.size()] == '/');
}

bool is_hidden(const std::string& path) { return path.starts_with('.') || path.find("/.") != std::string::npos; }

// Notes which files are opened beside the first.
class NotingSiblings final : public SiblingOpener {
 public:
  explicit NotingSiblings(SiblingOpener& siblings) : siblings_(siblings) {}

  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view name) override {
    auto source = siblings_.open_sibling(name);
    if (source) names.emplace(name);
    return source;
  }

  std::set<std::string> names;

 private:
  SiblingOpener& siblings_;
};

// The file names of the archive that the path leads to, the first file's in front. Where it is damaged, those that were
// found before that: the page says what is wrong.
Result<std::vector<std::string>> archive_files(const std::string& path) {
  BALLAST_TRY(ResolvedPath resolved, resolve_path(path, {.access = FileAccess::kPositional}));
  std::vector<std::string> names = {resolved.request.file_name};
  if (resolved.siblings == nullptr) return names;
  NotingSiblings siblings(*resolved.siblings);
  resolved.request.siblings = &siblings;
  const auto archive = open_resolved(resolved);
  siblings.names.erase(names.front());
  names.insert(names.end(), siblings.names.begin(), siblings.names.end());
  return names;
}

class Finder {
 public:
  explicit Finder(bool has_several_paths) : has_several_paths_(has_several_paths) {}

  Status add(const std::string& path) {
    BALLAST_TRY(const bool is_a_folder, is_folder(os_file_system(), path));
    return is_a_folder ? add_folder(path) : add_archive(path);
  }
  LensFiles take() { return std::move(found_); }

 private:
  Status add_archive(const std::string& path) {
    BALLAST_TRY(const std::vector<std::string> names, archive_files(path));
    for (const std::string& name : names) {
      const std::string beside = (fs::path(path).parent_path() / name).string();
      BALLAST_TRY(std::string real, real_path(beside));
      BALLAST_TRY(const auto source, open_file(real, FileAccess::kPositional));  // now, rather than in the page
      BALLAST_CHECK(add_file(name, beside, {.path = std::move(real), .bytes = source->size()}));
    }
    return {};
  }

  Status add_folder(const std::string& path) {
    BALLAST_TRY(const std::string root, real_path(path));
    BALLAST_TRY(const std::vector<FolderFile> inside, files_below(root));
    // The cache has each file once, below blobs, and snapshots of links to them.
    const fs::path above = fs::path(root).parent_path();
    const std::string blobs = above.filename() == "snapshots" ? (above.parent_path() / "blobs").string() : root;
    const std::string prefix = has_several_paths_ ? fs::path(root).filename().string() + '/' : "";
    const size_t before = found_.files.size();
    for (const FolderFile& file : inside) {
      if (is_hidden(file.path)) continue;
      auto real = real_path((fs::path(root) / file.path).string());
      if (!real) continue;  // removed meanwhile
      if (is_inside(*real, root) || is_inside(*real, blobs))
        BALLAST_CHECK(add_file(prefix + file.path, (fs::path(path) / file.path).string(),
                               {.path = std::move(*real), .bytes = file.bytes}));
      else ++found_.links_left_out;
    }
    if (found_.files.size() > before || has_several_paths_) return {};
    return make_error(ErrorCode::kNotFound, fmt::format("{}: the folder has no files to look at", path));
  }

  // A path that was given twice is there once. Of two with the same name the second is called by its path.
  Status add_file(const std::string& name, const std::string& given, LensFile file) {
    if (!paths_.insert(fs::absolute(given).lexically_normal().string()).second) return {};
    if (found_.files.size() == kMostLensFiles) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: there are more than {} files; name a folder with fewer, or the files", given,
                                    kMostLensFiles));
    }
    file.name = names_.insert(name).second ? name : given;
    names_.insert(file.name);
    found_.files.push_back(std::move(file));
    return {};
  }

  bool has_several_paths_;
  LensFiles found_;
  std::set<std::string> names_, paths_;
};

// ---------------------------------------------------------------- reading

class FileBody final : public BodySource {
 public:
  FileBody(LensFile file, OpenLensFile open, const ByteRange& part, Complain complain)
      : file_(std::move(file)),
        open_(std::move(open)),
        complain_(std::move(complain)),
        at_(part.first),
        size_(part.size) {}

  uint64_t size() const override { return size_; }

  Result<std::string> next(size_t most) override {
    auto piece = read(most);
    if (!piece) complain_(piece.error().message);
    return piece;
  }

 private:
  // The state is looked at behind the bytes: those that were read before it changed are good.
  Result<std::string> read(size_t most) {
    std::string piece(most, '\0');
    const Status status = open_.source->read_at(at_, std::as_writable_bytes(std::span(piece)));
    const auto version = lens_file_version(file_);
    if (!version || *version != open_.version) return make_error(ErrorCode::kIo, changed_text(file_));
    if (!status) return status.error();
    at_ += most;
    return piece;
  }

  const LensFile file_;
  const OpenLensFile open_;
  const Complain complain_;
  uint64_t at_;
  const uint64_t size_;
};

}  // namespace

Result<LensFiles> find_lens_files(const std::vector<std::string>& paths) {
  Finder finder(paths.size() > 1);
  for (const std::string& path : paths) BALLAST_CHECK(finder.add(path));
  return finder.take();
}

bool leads_elsewhere(const LensFile& file) {
  const auto real = real_path(file.path);
  return real && *real != file.path;
}

std::string version_text(const FileVersion& version) {
  return fmt::format("{:x}-{:x}-{:x}-{:x}", version.size, version.inode, static_cast<uint64_t>(version.changed_seconds),
                     static_cast<uint64_t>(version.changed_nanoseconds));
}

Result<FileVersion> lens_file_version(const LensFile& file) { return version_of(file.path); }

Result<std::optional<OpenLensFile>> open_lens_file(const LensFile& file) {
  if (leads_elsewhere(file)) return std::optional<OpenLensFile>();
  BALLAST_TRY(const FileVersion before, lens_file_version(file));
  BALLAST_TRY(auto source, open_file(file.path, FileAccess::kPositional));
  BALLAST_TRY(const FileVersion after, lens_file_version(file));
  if (before != after || source->size() != after.size) return std::optional<OpenLensFile>();
  return std::optional(OpenLensFile{std::move(source), after});
}

std::unique_ptr<BodySource> make_file_body(const LensFile& file, OpenLensFile open, const ByteRange& part,
                                           Complain complain) {
  return std::make_unique<FileBody>(file, std::move(open), part, std::move(complain));
}

std::string changed_text(const LensFile& file) {
  const auto now = lens_file_version(file);
  if (!now && now.error().code == ErrorCode::kNotFound) return fmt::format("{}: the file is gone", file.name);
  return fmt::format("{}: the file has changed while it was being looked at{}; reload the page to see its new state",
                     file.name, now ? fmt::format(" (it has {} bytes now)", now->size) : "");
}

}  // namespace ballast::cli
