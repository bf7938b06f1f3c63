#include "ballast/archive/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ballast/archive/file_set.h"
#include "ballast/archive/foreign.h"
#include "ballast/archive/model_folder.h"
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

struct FolderContents {
  std::vector<std::string> indexes;
  std::vector<std::string> archives;  // by extension only: the user pointed at the folder, not at a file
};

// Formats that are only read (.pt) lie beside models as what training left there: optimizer.pt, rng_state.pth.
bool is_model_extension(const std::string& name) {
  const FormatDriver* format = format_for_extension(name);
  return format != nullptr && format->plan_write != nullptr;
}

Result<FolderContents> list_folder(const FileSet& files) {
  FolderContents contents;
  BALLAST_TRY(const std::vector<std::string> names, files.names());
  for (const std::string& name : names) {
    if (name.ends_with(".index.json")) {
      contents.indexes.push_back(name);
    } else if (is_model_extension(name)) {
      BALLAST_TRY(const bool is_archive, files.has(name));
      if (is_archive) contents.archives.push_back(name);
    }
  }
  return contents;
}

// In a folder with a config.json, files of other names are something else. Where both are there, safetensors and
// PyTorch's files hold the same.
Result<std::optional<std::string>> find_model_weights(const FileSet& files) {
  BALLAST_TRY(const bool is_model, files.has("config.json"));
  if (!is_model) return std::optional<std::string>();
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    BALLAST_TRY(const bool is_there, files.has(name));
    if (is_there) return std::optional<std::string>(name);
  }
  return std::optional<std::string>();
}

// The name of the file among them that holds the weights, or the index of those that do.
Result<std::string> find_weights(const FileSet& files) {
  BALLAST_TRY(const FolderContents contents, list_folder(files));
  BALLAST_TRY(const auto model, find_model_weights(files));
  if (model) return *model;
  const auto& candidates = contents.indexes.empty() ? contents.archives : contents.indexes;
  if (candidates.size() == 1) return candidates.front();
  if (candidates.empty()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: the folder holds neither an index of shards "
                                                        "(*.index.json) nor a weight file",
                                                        files.place()));
  }
  std::string names;
  for (const std::string& name : candidates) names += fmt::format("\n  {}", files.place_of(name));
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the folder holds several archives; name one of them:{}", files.place(), names));
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

// Every zip that no other format knows is taken for an npz, which then finds no arrays in it.
bool may_be_foreign(const Error& error) {
  return error.code == ErrorCode::kUnknownFormat || error.code == ErrorCode::kUnsupported;
}

}  // namespace

Error explain_unreadable(const OpenRequest& request, Error error) {
  if (!may_be_foreign(error)) return error;
  const auto found = find_foreign_content(*request.source);
  if (!found || !*found) return error;
  const ForeignContent& foreign = **found;
  const bool is_zip = foreign.kind == "zip" || foreign.kind == "keras";
  if (foreign.kind == "empty" || (error.code == ErrorCode::kUnsupported && !is_zip)) return error;
  const std::string advice = foreign.advice.empty() ? "" : "; try: " + foreign.advice;
  return make_error(ErrorCode::kUnknownFormat,
                    fmt::format("{}: this is {}, not a weight file; {}{}", request.source->name(), foreign.what,
                                foreign.cause, advice));
}

Result<Archive> open_resolved(const ResolvedPath& resolved) {
  return guarded([&]() -> Result<Archive> {
    auto archive = open_archive(resolved.request);
    if (!archive) return explain_unreadable(resolved.request, std::move(archive).error());
    return archive;
  });
}

Result<Archive> open_in_folder(const ResolvedPath& resolved, const FileSet& folder) {
  BALLAST_TRY(Archive archive, open_resolved(resolved));
  if (archive.description().config) return archive;
  BALLAST_TRY(ModelFolder model, read_model_folder(folder));
  if (model.config) archive.set_config(std::move(*model.config));
  return archive;
}

Result<ResolvedPath> resolve_files(const FileSet& files, const OpenOptions& options) {
  BALLAST_TRY(const std::vector<std::string> names, files.names());
  std::string name = names.size() == 1 ? names.front() : "";
  if (name.empty()) BALLAST_CHECK(assign(name, find_weights(files)));
  ResolvedPath resolved;
  BALLAST_TRY(auto source, files.open(name, options.access));
  resolved.siblings = files.siblings(options.access);
  resolved.request = {std::move(source), std::move(name), "", resolved.siblings.get()};
  return resolved;
}

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

Result<Archive> open_archive_bytes(ByteVector bytes) {
  return guarded([&] { return open_archive({MemorySource::owning(std::move(bytes)), "", "", nullptr}); });
}

Result<Archive> open_archive_borrowed(ByteSpan bytes) {
  return guarded([&] { return open_archive({MemorySource::borrowing(bytes), "", "", nullptr}); });
}

}  // namespace ballast
