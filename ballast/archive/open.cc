#include "ballast/archive/open.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/file_set.h"
#include "ballast/archive/find_weights.h"
#include "ballast/archive/foreign.h"
#include "ballast/archive/model_folder.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

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

// Every zip that no other format knows is taken for an npz, which then finds no arrays in it.
bool may_be_foreign(const Error& error) {
  return error.code == ErrorCode::kUnknownFormat || error.code == ErrorCode::kUnsupported;
}

}  // namespace

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

Result<Archive> open_archive_bytes(ByteVector bytes) {
  return guarded([&] { return open_archive({MemorySource::owning(std::move(bytes)), "", "", nullptr}); });
}

Result<Archive> open_archive_borrowed(ByteSpan bytes) {
  return guarded([&] { return open_archive({MemorySource::borrowing(bytes), "", "", nullptr}); });
}

}  // namespace ballast
