// Opening what a user points at: a file, a folder of shards, an index, or the common prefix of a pair.
#pragma once

#include <string>

#include "ballast/formats/format.h"
#include "ballast/io/file.h"

namespace ballast {

class FileSet;

struct OpenOptions {
  FileAccess access = FileAccess::kMapped;
};

// Looks at `path` in this order: a file; a folder (beside a config.json its model.safetensors or pytorch_model.bin or
// the index of either, otherwise its *.index.json, or else its only archive; a config.json of a model becomes the
// archive's config); `<path>.json` with `<path>.npz` (a pair, whose kind its content decides); `<path>.netcl`. Costs
// the header only.
// bad_alloc comes back as ErrorCode::kOutOfMemory here and from every function of this layer.
Result<Archive> open_archive(const std::string& path, const OpenOptions& options = {});

// Bytes in memory. `borrow` keeps no copy: the bytes (static data, a caller's mapping) must outlive the archive.
Result<Archive> open_archive_bytes(ByteVector bytes);
Result<Archive> open_archive_borrowed(ByteSpan bytes);

// What `open_archive` would read: the request a driver gets. For verify, which collects findings instead.
struct ResolvedPath {
  OpenRequest request;
  std::unique_ptr<SiblingOpener> siblings;
};
Result<ResolvedPath> resolve_path(const std::string& path, const OpenOptions& options);
Result<Archive> open_resolved(const ResolvedPath& resolved);
// The same with the config.json of a model among `folder`, where the archive has no config of its own.
Result<Archive> open_in_folder(const ResolvedPath& resolved, const FileSet& folder);
// By the rules for folders; of one file alone, that one.
Result<ResolvedPath> resolve_files(const FileSet& files, const OpenOptions& options);

// `error` says that no format knows the file: where it is something else that is known (a web page, a Git LFS pointer),
// an error that names it, why it is there and what to do.
Error explain_unreadable(const OpenRequest& request, Error error);

}  // namespace ballast
