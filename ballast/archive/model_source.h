// What a model is opened from: a path, an archive, or byte sources by name. One door for its weights, its tokenizer,
// its chat template and whatever else stands beside them; the file that holds the weights is opened once, whoever asks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ballast/archive/open.h"

namespace ballast {

class FileSet;       // archive/file_set.h
struct ModelFolder;  // archive/model_folder.h

// By the name that each has in its folder: "config.json", "model.safetensors", "1_Pooling/config.json".
using NamedSources = std::map<std::string, std::shared_ptr<const ByteSource>, std::less<>>;

// Cheap to copy: copies share what was opened. Nothing is read before it is asked for. Any number of threads may use
// it.
class ModelSource {
 public:
  // What open_archive opens.
  explicit ModelSource(std::string path);
  // An archive that is open; nothing stands beside it.
  explicit ModelSource(Archive archive);
  // The files of a model's folder, with the names that they have in it, or a single file under any name. `name` is what
  // errors call the folder.
  explicit ModelSource(NamedSources files, std::string name = "memory");

  // What errors call it: the path as it was given.
  const std::string& name() const;
  // Whether it names a folder of files rather than one of them.
  bool is_folder() const;
  // The files of the folder, or those beside the file; null where nothing stands beside it.
  const FileSet* files() const;
  // config.json and its like; nothing in it where nothing stands beside the weights.
  Result<ModelFolder> folder() const;

  // The file that the weights begin in.
  Result<std::shared_ptr<const ByteSource>> first_file() const;
  // The weights' archive, opened once and kept. Only where it was opened for mapping and reading is wanted now, it is
  // opened again: whoever wants that asks first.
  Result<std::shared_ptr<const Archive>> archive(FileAccess access = FileAccess::kMapped) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ballast
