// What the JSON beside a Burnpack fixture says: the content that was handed to Burn's writer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ballast::testing {

struct SidecarTensor {
  std::string dtype;  // as Rust prints it: "F32", "Bool(Native)", "QFloat(QuantScheme { .. })"
  std::vector<uint64_t> shape;
  std::optional<std::string> param_id;
  uint64_t byte_len = 0;
  std::string sha256;
};

struct Sidecar {
  std::string crate_version;
  std::string file_sha256;
  uint64_t file_size = 0;
  std::vector<std::string> disk_order;  // empty where it is not known
  std::map<std::string, SidecarTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> scalars;  // "Int -7", "UInt 12345", "Float 3fe0000000000000", "Bool true"
};

// `path` below tests/data. A sidecar that cannot be read fails the test.
Sidecar read_sidecar(const std::string& path);

}  // namespace ballast::testing
