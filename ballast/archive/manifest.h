// `<file>.ballast.json`: digests of an archive, kept beside it.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/digest.h"

namespace ballast {

class JsonReader;

struct ManifestTensor {
  std::string name;
  std::string type;
  Shape shape;
  Digest blake3;
};

struct Manifest {
  std::string format;
  uint64_t file_size = 0;
  Digest archive;
  std::vector<ManifestTensor> tensors;
};

// The next value: 64 hexadecimal digits.
Result<Digest> read_digest(JsonReader& json);

std::string manifest_path(const std::string& archive_path);
Manifest make_manifest(const Archive& archive, const std::vector<TensorDigest>& digests);
std::string manifest_to_json(const Manifest& manifest);
Result<Manifest> parse_manifest(std::string_view json, const std::string& where);
// The manifest beside an archive; kNotFound when there is none.
Result<Manifest> read_manifest(const std::string& archive_path);
// Puts it there, whole or not at all, in place of an older one.
Status write_manifest(const std::string& archive_path, const Manifest& manifest);

// What the archive holds now and the manifest does not say, or the other way round; empty = it matches.
struct ManifestDifference {
  std::string tensor;   // empty: about the archive as a whole
  std::string message;  // names the tensor too
};
std::vector<ManifestDifference> manifest_differences(const Manifest& expected, const Manifest& actual);
// The messages alone.
std::vector<std::string> compare_manifest(const Manifest& expected, const Manifest& actual);

}  // namespace ballast
