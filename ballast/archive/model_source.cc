#include "ballast/archive/model_source.h"

#include <filesystem>
#include <mutex>

#include "ballast/archive/file_set.h"
#include "ballast/archive/model_folder.h"
#include "ballast/io/file_system.h"
#include "ballast/io/guard.h"

namespace ballast {

struct ModelSource::State {
  std::string name;
  bool is_path = false;  // `name` is a path; otherwise `files` or `archive` are all there is
  bool is_folder = false;
  std::unique_ptr<FileSet> files;

  std::mutex opening;
  FileAccess access = FileAccess::kMapped;  // of what follows
  std::optional<ResolvedPath> resolved;
  std::shared_ptr<const Archive> archive;

  // With `opening` held.
  Status resolve(FileAccess wanted);
  Status open(FileAccess wanted);
};

Status ModelSource::State::resolve(FileAccess wanted) {
  const bool is_enough = access == wanted || wanted == FileAccess::kMapped || !is_path;
  if (resolved && is_enough) return {};
  BALLAST_TRY(ResolvedPath found, is_path ? resolve_path(name, {wanted}) : resolve_files(*files, {wanted}));
  resolved = std::move(found);
  access = wanted;
  archive.reset();
  return {};
}

Status ModelSource::State::open(FileAccess wanted) {
  if (files == nullptr) return {};
  BALLAST_CHECK(resolve(wanted));
  if (archive) return {};
  BALLAST_TRY(Archive opened, is_folder ? open_in_folder(*resolved, *files) : open_resolved(*resolved));
  archive = std::make_shared<const Archive>(std::move(opened));
  return {};
}

ModelSource::ModelSource(std::string path) : state_(std::make_shared<State>()) {
  // Where the disk does not say what it is, opening it says why.
  const auto found = ballast::is_folder(os_file_system(), path);
  state_->is_folder = found && *found;
  state_->files = make_folder_files(state_->is_folder ? path : std::filesystem::path(path).parent_path().string());
  state_->name = std::move(path);
  state_->is_path = true;
}

ModelSource::ModelSource(Archive archive) : state_(std::make_shared<State>()) {
  state_->name = archive.sources().empty() ? "memory" : archive.sources().front()->name();
  state_->archive = std::make_shared<const Archive>(std::move(archive));
}

ModelSource::ModelSource(NamedSources files, std::string name) : state_(std::make_shared<State>()) {
  state_->name = name;
  state_->is_folder = true;
  state_->files = make_named_files(std::move(files), std::move(name));
}

const std::string& ModelSource::name() const { return state_->name; }
bool ModelSource::is_folder() const { return state_->is_folder; }
const FileSet* ModelSource::files() const { return state_->files.get(); }

Result<ModelFolder> ModelSource::folder() const {
  if (state_->files == nullptr) return ModelFolder();
  return read_model_folder(*state_->files);
}

Result<std::shared_ptr<const ByteSource>> ModelSource::first_file() const {
  return guarded([&]() -> Result<std::shared_ptr<const ByteSource>> {
    const std::lock_guard lock(state_->opening);
    if (state_->files != nullptr) {
      BALLAST_CHECK(state_->resolve(FileAccess::kMapped));
      return state_->resolved->request.source;
    }
    if (!state_->archive->sources().empty()) return state_->archive->sources().front();
    return make_error(ErrorCode::kNotFound, state_->name + ": the archive stands in no file");
  });
}

Result<std::shared_ptr<const Archive>> ModelSource::archive(FileAccess access) const {
  return guarded([&]() -> Result<std::shared_ptr<const Archive>> {
    const std::lock_guard lock(state_->opening);
    BALLAST_CHECK(state_->open(access));
    return state_->archive;
  });
}

}  // namespace ballast
