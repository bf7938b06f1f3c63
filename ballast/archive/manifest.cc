#include "ballast/archive/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/base/json.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr std::string_view kManifestFormat = "ballast-manifest-1";

Result<ManifestTensor> read_manifest_tensor(JsonReader& json) {
  ManifestTensor tensor;
  std::vector<uint64_t> dims;
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "name") BALLAST_CHECK(assign(tensor.name, json.read_string()));
    else if (key == "type") BALLAST_CHECK(assign(tensor.type, json.read_string()));
    else if (key == "shape") BALLAST_CHECK(assign(dims, json.read_u64_array()));
    else if (key == "blake3") BALLAST_CHECK(assign(tensor.blake3, read_digest(json)));
    else BALLAST_CHECK(json.skip_value());
  }
  tensor.shape = Shape(dims);
  return tensor;
}

Status read_manifest_tensors(JsonReader& json, std::vector<ManifestTensor>& tensors) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(ManifestTensor tensor, read_manifest_tensor(json));
    tensors.push_back(std::move(tensor));
  }
}

std::string type_and_shape(const ManifestTensor& tensor) { return tensor.type + " " + tensor.shape.to_string(); }

}  // namespace

Result<Digest> read_digest(JsonReader& json) {
  BALLAST_TRY(const std::string text, json.read_string());
  const auto bytes = parse_hex(text);
  Digest digest;
  if (!bytes || bytes->size() != digest.size()) return json.error_here("a digest needs 64 hexadecimal digits");
  std::ranges::copy(*bytes, digest.begin());
  return digest;
}

std::string manifest_path(const std::string& archive_path) { return archive_path + ".ballast.json"; }

Manifest make_manifest(const Archive& archive, const std::vector<TensorDigest>& digests) {
  Manifest manifest;
  manifest.format = archive.description().format;
  manifest.file_size = archive.stored_size();
  manifest.archive = archive_digest(archive.tensors(), digests);
  for (size_t i = 0; i < digests.size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    manifest.tensors.push_back({tensor.name, tensor.type_name(), tensor.shape, digests[i].blake3});
  }
  return manifest;
}

std::string manifest_to_json(const Manifest& manifest) {
  JsonWriter json(/*pretty=*/true);
  json.begin_object().key("manifest").string(kManifestFormat);
  json.key("format").string(manifest.format).key("bytes").number(manifest.file_size);
  json.key("digest").string(to_hex(manifest.archive)).key("tensors").begin_array();
  for (const ManifestTensor& tensor : manifest.tensors) {
    JsonWriter row;
    row.begin_object().key("name").string(tensor.name).key("type").string(tensor.type);
    row.key("shape").numbers(tensor.shape.dims()).key("blake3").string(to_hex(tensor.blake3)).end_object();
    json.raw(row.take());
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& where) {
  JsonReader json(text, where);
  Manifest manifest;
  std::string key;
  std::string kind;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "manifest") BALLAST_CHECK(assign(kind, json.read_string()));
    else if (key == "format") BALLAST_CHECK(assign(manifest.format, json.read_string()));
    else if (key == "bytes") BALLAST_CHECK(assign(manifest.file_size, json.read_u64()));
    else if (key == "digest") BALLAST_CHECK(assign(manifest.archive, read_digest(json)));
    else if (key == "tensors") BALLAST_CHECK(read_manifest_tensors(json, manifest.tensors));
    else BALLAST_CHECK(json.skip_value());
  }
  BALLAST_CHECK(json.finish());
  if (kind != kManifestFormat) return json.error_here("this is not a Ballast manifest of a version known here");
  return manifest;
}

Result<Manifest> read_manifest(const std::string& archive_path) {
  return guarded([&]() -> Result<Manifest> {
    const std::string path = manifest_path(archive_path);
    BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
    BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
    return parse_manifest(as_text(bytes), path);
  });
}

Status write_manifest(const std::string& archive_path, const Manifest& manifest) {
  return guarded([&]() -> Status {
    CommitOptions options;
    options.overwrite = true;
    AtomicFiles files(options);
    BALLAST_TRY(ByteSink * sink, files.add(manifest_path(archive_path), 0));
    BALLAST_CHECK(sink->write_text(manifest_to_json(manifest)));
    return files.commit();
  });
}

std::vector<ManifestDifference> manifest_differences(const Manifest& expected, const Manifest& actual) {
  std::map<std::string_view, const ManifestTensor*> present;
  for (const ManifestTensor& tensor : actual.tensors) present[tensor.name] = &tensor;
  std::vector<ManifestDifference> differences;
  for (const ManifestTensor& tensor : expected.tensors) {
    const auto found = present.find(tensor.name);
    if (found == present.end()) {
      differences.push_back({tensor.name, fmt::format("tensor \"{}\" is missing", tensor.name)});
      continue;
    }
    const ManifestTensor& now = *found->second;
    if (now.type != tensor.type || !(now.shape == tensor.shape)) {
      differences.push_back({tensor.name, fmt::format("tensor \"{}\" was {}, is {}", tensor.name,
                                                      type_and_shape(tensor), type_and_shape(now))});
    } else if (now.blake3 != tensor.blake3) {
      differences.push_back({tensor.name, fmt::format("tensor \"{}\" has other contents: {} instead of {}", tensor.name,
                                                      to_hex(now.blake3), to_hex(tensor.blake3))});
    }
    present.erase(found);
  }
  for (const auto& [name, tensor] : present) {
    differences.push_back({std::string(name), fmt::format("tensor \"{}\" is new", name)});
  }
  if (differences.empty() && expected.archive != actual.archive) {
    differences.push_back(
        {"", "the archive digest differs although every tensor matches: the manifest itself was changed"});
  }
  return differences;
}

std::vector<std::string> compare_manifest(const Manifest& expected, const Manifest& actual) {
  std::vector<std::string> messages;
  for (ManifestDifference& difference : manifest_differences(expected, actual)) {
    messages.push_back(std::move(difference.message));
  }
  return messages;
}

}  // namespace ballast
