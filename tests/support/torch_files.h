// PyTorch's files under tests/data/torch_files, and what their sidecars say they hold.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ballast::testing {

struct TorchSidecarTensor {
  std::string name;  // as the reader should call it
  std::string type;  // "F32"
  std::vector<uint64_t> shape;
  std::string sha256;  // "" where the sidecar has none: sparse and meta tensors
  bool requires_grad = false;
  std::vector<std::pair<std::string, std::string>> attributes;  // raw JSON values
};

struct TorchSidecarLeaf {
  std::string name;
  std::string json;  // {"type": ..., ...}
};

struct TorchSidecar {
  std::string expect;  // "read", "refuse", "read_or_refuse"
  std::vector<TorchSidecarTensor> tensors;
  std::vector<TorchSidecarLeaf> leaves;
  std::vector<std::vector<std::string>> shared;  // names over one storage
};

// Names of the files in tests/data/torch_files/files, sorted.
std::vector<std::string> torch_files();
TorchSidecar read_torch_sidecar(const std::string& file);

struct TorchAttack {
  std::string file;
  std::string expect;
  std::string why;
  bool tolerable = false;  // reading it is no fault
};
std::vector<TorchAttack> torch_attacks();

}  // namespace ballast::testing
