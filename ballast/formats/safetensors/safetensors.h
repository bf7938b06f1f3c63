// safetensors: u64 header length | JSON header | payloads without holes. See docs/formats.md.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

// One file, validated: its own tensors, with extents of source 0.
struct SafetensorsFile {
  Description description;
  std::vector<StoredExtent> extents;
};
Result<SafetensorsFile> parse_safetensors(const ByteSource& source, Findings& findings);

// The header (length field included) the reference writer would write, and the order of payloads behind it.
struct SafetensorsLayout {
  std::string header;
  std::vector<size_t> order;  // positions in description.tensors
  uint64_t payload_bytes = 0;
};
// `members`: which tensors of the description go into this file.
Result<SafetensorsLayout> plan_safetensors(const Description& description, std::vector<size_t> members);

// A *.index.json that maps tensor names to shards in the same folder: safetensors, or files of PyTorch's.
bool looks_like_safetensors_index(ByteSpan head);
Result<Archive> open_safetensors_index(const OpenRequest& request, Findings& findings);
// The files of a sharded write: the shards, then the index.
Result<std::unique_ptr<PlannedWrite>> plan_safetensors_shards(const WriteRequest& request);

}  // namespace ballast
