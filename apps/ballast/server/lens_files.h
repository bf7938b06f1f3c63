// The files that `ballast lens` was given: which they are, and how they are read while others may change them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ballast/server/byte_range.h"
#include "apps/ballast/server/site.h"
#include "ballast/io/file.h"

namespace ballast::cli {

struct LensFile {
  std::string name{};  // what the page calls it: inside a folder, the path from there on
  std::string path{};  // without symbolic links
  uint64_t bytes = 0;
};

struct LensFiles {
  std::vector<LensFile> files;
  uint64_t links_left_out = 0;  // in folders, that lead outside
};

// What the paths name: a file, with those that it is read together with (the shards of an index, the other half of a
// pair); all files in a folder and in folders inside it, but hidden ones. Symbolic links in a folder count where they
// lead to a file in it; in a snapshot of the cache of Hugging Face's libraries also where they lead to its blobs.
Result<LensFiles> find_lens_files(const std::vector<std::string>& paths);

// Whether a link has come to stand in place of the file, or of a folder above it: what it leads to was not given.
bool leads_elsewhere(const LensFile& file);

// Of a state of the file: another one where it was written to or replaced. Lower-case hex digits and dashes.
std::string version_text(const FileVersion& version);

// A file that is open in a state that is known.
struct OpenLensFile {
  std::shared_ptr<const ByteSource> source;
  FileVersion version;
};
// nullopt where the path has come to lead elsewhere, or the file changes this very moment.
Result<std::optional<OpenLensFile>> open_lens_file(const LensFile& file);
// Its state now.
Result<FileVersion> lens_file_version(const LensFile& file);

using Complain = std::function<void(std::string_view text)>;
// Bytes of the file, as a body. Fails, and says why to `complain`, where the file changes while they are sent.
std::unique_ptr<BodySource> make_file_body(const LensFile& file, OpenLensFile open, const ByteRange& part,
                                           Complain complain);

// What is wrong with a file that is not in the state any more that it was listed in.
std::string changed_text(const LensFile& file);

}  // namespace ballast::cli
