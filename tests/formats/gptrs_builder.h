// Encodes GPTRSCHK and GPTRSTEN files field by field, right or wrong: knows nothing of the library's own writer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/base/bytes.h"
#include "tests/support/format_testing.h"

namespace ballast::testing {

struct GptrsEntry {
  std::string name;
  std::vector<uint64_t> dims = {};
  uint32_t dtype = 0;
  std::string payload = {};
  uint8_t flag = 0;
  std::string id = std::string(16, '\0');
  // What the fields say where that is not the truth.
  std::optional<uint64_t> offset = {};
  std::optional<uint64_t> byte_len = {};
  std::optional<uint32_t> name_len = {};
  std::optional<uint32_t> rank = {};
};

struct GptrsFileSpec {
  bool checkpoint = true;
  uint32_t version = 2;
  std::string config = R"({"kind":"gpt","config":{}})";
  std::vector<GptrsEntry> entries = {};
  std::string trailing = {};
  std::string index_trailing = {};
  std::optional<uint32_t> count = {};
  std::optional<uint32_t> config_len = {};
  std::optional<uint32_t> index_len = {};
};

inline void append_gptrs_record(std::string& out, const GptrsFileSpec& spec, const GptrsEntry& entry, uint64_t offset) {
  append_le<uint32_t>(out, entry.name_len.value_or(static_cast<uint32_t>(entry.name.size())));
  out += entry.name;
  if (spec.checkpoint && spec.version == 2) out += entry.id;
  append_le<uint32_t>(out, entry.rank.value_or(static_cast<uint32_t>(entry.dims.size())));
  for (const uint64_t dim : entry.dims) append_le<uint64_t>(out, dim);
  append_le<uint32_t>(out, entry.dtype);
  append_le<uint8_t>(out, entry.flag);
  if (spec.version == 2) append_le<uint64_t>(out, entry.offset.value_or(offset));
  append_le<uint64_t>(out, entry.byte_len.value_or(entry.payload.size()));
}

inline std::string gptrs_index(const GptrsFileSpec& spec, uint64_t data_start) {
  std::string index;
  append_le<uint32_t>(index, spec.count.value_or(static_cast<uint32_t>(spec.entries.size())));
  for (const GptrsEntry& entry : spec.entries) {
    append_gptrs_record(index, spec, entry, data_start);
    data_start += entry.payload.size();
  }
  return index + spec.index_trailing;
}

inline ByteVector build_gptrs(const GptrsFileSpec& spec) {
  std::string file = spec.checkpoint ? "GPTRSCHK" : "GPTRSTEN";
  append_le<uint32_t>(file, spec.version);
  if (spec.checkpoint) {
    append_le<uint32_t>(file, spec.config_len.value_or(static_cast<uint32_t>(spec.config.size())));
    file += spec.config;
  }
  if (spec.version == 1) {
    append_le<uint32_t>(file, spec.count.value_or(static_cast<uint32_t>(spec.entries.size())));
    for (const GptrsEntry& entry : spec.entries) {
      append_gptrs_record(file, spec, entry, 0);
      file += entry.payload;
    }
  } else {
    const uint64_t data_start = file.size() + 4 + gptrs_index(spec, 0).size();
    const std::string index = gptrs_index(spec, data_start);
    append_le<uint32_t>(file, spec.index_len.value_or(static_cast<uint32_t>(index.size())));
    file += index;
    for (const GptrsEntry& entry : spec.entries) file += entry.payload;
  }
  return to_byte_vector(file + spec.trailing);
}

}  // namespace ballast::testing
