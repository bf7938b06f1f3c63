#include "ballast/archive/file_set.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/io/file_system.h"
#include "ballast/io/list_folder.h"

namespace ballast {

namespace {

class FolderFiles final : public FileSet {
 public:
  explicit FolderFiles(std::string folder) : folder_(std::move(folder)) {}

  const std::string& place() const override { return folder_; }
  std::string place_of(std::string_view name) const override {
    return (std::filesystem::path(folder_) / name).string();
  }
  Result<std::vector<std::string>> names() const override { return names_in_folder(folder_.empty() ? "." : folder_); }
  // A disk that does not answer must not pass for a file that is absent: another one would be read in its place.
  Result<bool> has(const std::string& name) const override { return is_file(os_file_system(), place_of(name)); }
  Result<std::shared_ptr<const ByteSource>> open(const std::string& name, FileAccess access) const override {
    return open_file(place_of(name), access);
  }
  std::unique_ptr<SiblingOpener> siblings(FileAccess access) const override {
    return make_folder_siblings(place_of("any"), access);
  }

 private:
  std::string folder_;
};

class NamedFiles final : public FileSet {
 public:
  NamedFiles(NamedSources sources, std::string place) : sources_(std::move(sources)), place_(std::move(place)) {}

  const std::string& place() const override { return place_; }
  std::string place_of(std::string_view name) const override { return fmt::format("{}/{}", place_, name); }
  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, source] : sources_) {
      if (name.find('/') == std::string::npos) names.push_back(name);
    }
    return names;
  }
  Result<bool> has(const std::string& name) const override { return find(name) != nullptr; }
  Result<std::shared_ptr<const ByteSource>> open(const std::string& name, FileAccess /*access*/) const override {
    if (auto source = find(name)) return source;
    return make_error(ErrorCode::kNotFound, fmt::format("{}: it is not among the files given", place_of(name)));
  }
  std::unique_ptr<SiblingOpener> siblings(FileAccess access) const override {
    return std::make_unique<Siblings>(*this, access);
  }

 private:
  class Siblings final : public SiblingOpener {
   public:
    Siblings(const NamedFiles& files, FileAccess access) : files_(files), access_(access) {}
    Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view name) override {
      return files_.open(std::string(name), access_);
    }

   private:
    const NamedFiles& files_;
    FileAccess access_;
  };

  std::shared_ptr<const ByteSource> find(const std::string& name) const {
    const auto found = sources_.find(name);
    return found == sources_.end() ? nullptr : found->second;
  }

  NamedSources sources_;
  std::string place_;
};

}  // namespace

std::unique_ptr<FileSet> make_folder_files(std::string folder) {
  return std::make_unique<FolderFiles>(std::move(folder));
}

std::unique_ptr<FileSet> make_named_files(NamedSources sources, std::string place) {
  return std::make_unique<NamedFiles>(std::move(sources), std::move(place));
}

Result<std::string> read_text_of(const FileSet& files, const std::string& name, uint64_t most, std::string_view what) {
  BALLAST_TRY(const auto source, files.open(name, FileAccess::kPositional));
  if (source->size() > most) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for {}", files.place_of(name), source->size(), what));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Result<std::optional<std::string>> read_if_there(const FileSet& files, const std::string& name, uint64_t most,
                                                 std::string_view what) {
  BALLAST_TRY(const bool is_there, files.has(name));
  if (!is_there) return std::optional<std::string>();
  BALLAST_TRY(std::string text, read_text_of(files, name, most, what));
  return std::optional(std::move(text));
}

}  // namespace ballast
