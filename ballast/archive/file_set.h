// Files that stand beside each other, by name: a folder, or byte sources that a program hands over.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/model_source.h"

namespace ballast {

// Any number of threads may use it.
class FileSet {
 public:
  virtual ~FileSet() = default;

  // What errors call the set, and a file of it.
  virtual const std::string& place() const = 0;
  virtual std::string place_of(std::string_view name) const = 0;
  // Not those of folders inside.
  virtual Result<std::vector<std::string>> names() const = 0;
  virtual Result<bool> has(const std::string& name) const = 0;
  virtual Result<std::shared_ptr<const ByteSource>> open(const std::string& name, FileAccess access) const = 0;
  // For formats that consist of several files.
  virtual std::unique_ptr<SiblingOpener> siblings(FileAccess access) const = 0;
};

// `folder` may be "": the current one.
std::unique_ptr<FileSet> make_folder_files(std::string folder);
std::unique_ptr<FileSet> make_named_files(NamedSources sources, std::string place);

// nullopt where there is no such file. kUnsupported where it has more than `most` bytes, which are too many for `what`
// ("a config").
Result<std::optional<std::string>> read_if_there(const FileSet& files, const std::string& name, uint64_t most,
                                                 std::string_view what);
// The same for a file that must be there.
Result<std::string> read_text_of(const FileSet& files, const std::string& name, uint64_t most, std::string_view what);

}  // namespace ballast
