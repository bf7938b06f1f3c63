// Zip files for tests, sound until something is patched.
#pragma once

#include "ballast/formats/container/deflate.h"
#include "ballast/formats/container/zip.h"
#include "ballast/formats/numpy/npy.h"
#include "tests/support/format_testing.h"

namespace ballast::testing {

struct ZipParts {
  std::string bytes;
  std::vector<size_t> local;    // offsets of the local headers
  std::vector<size_t> data;     // of the members' bytes
  std::vector<size_t> central;  // of the directory's entries
  size_t end = 0;               // of the end record

  ByteVector take() const { return to_byte_vector(bytes); }

  template <typename T>
  ZipParts& patch(size_t offset, T value) {
    store_le<T>(reinterpret_cast<std::byte*>(bytes.data() + offset), value);
    return *this;
  }
  // The same field in the local header and in the directory.
  template <typename T>
  ZipParts& patch_both(size_t member, size_t in_local, size_t in_central, T value) {
    return patch<T>(local[member] + in_local, value).template patch<T>(central[member] + in_central, value);
  }
};

struct ZipInput {
  std::string name;
  std::string content;
  bool deflate = false;
  std::string behind = {};  // stands between this member and the next
  // Not empty: stored as a deflated stream instead of the content, which is said to have `declared` bytes.
  std::string stream = {};
  uint64_t declared = 0;
};

inline std::string deflated(const std::string& text) {
  MemorySink out;
  DeflateSink sink(out);
  EXPECT_TRUE(sink.write_text(text).has_value());
  EXPECT_TRUE(sink.finish().has_value());
  return std::string(as_text(out.take()));
}

inline ZipParts build_zip(const std::vector<ZipInput>& inputs, const ZipStyle& style = {.always_zip64 = false}) {
  ZipParts parts;
  std::string directory;
  std::vector<size_t> in_directory;
  for (const ZipInput& input : inputs) {
    const bool crafted = !input.stream.empty();
    const std::string stored = crafted ? input.stream : input.deflate ? deflated(input.content) : input.content;
    ZipMember member;
    member.name = input.name;
    member.header_offset = parts.bytes.size();
    member.size = crafted ? input.declared : input.content.size();
    member.stored_size = stored.size();
    member.crc32 = crc32_of(as_bytes(input.content));
    member.deflated = input.deflate || crafted;
    parts.local.push_back(parts.bytes.size());
    parts.bytes += zip_local_header(member, style);
    parts.data.push_back(parts.bytes.size());
    parts.bytes += stored + input.behind;
    in_directory.push_back(directory.size());
    directory += zip_central_header(member, style);
  }
  const size_t offset = parts.bytes.size();
  for (const size_t at : in_directory) parts.central.push_back(offset + at);
  parts.bytes += directory;
  parts.end = parts.bytes.size();
  parts.bytes += zip_end_records(inputs.size(), offset, directory.size());
  return parts;
}

// A small NPY file: `count` u8 values.
inline std::string npy_text(size_t count = 3) {
  TensorInfo info;
  info.dtype = DType::kU8;
  info.shape = {count};
  info.byte_size = count;
  std::string text = npy_layout(info, {}).value().header;
  for (size_t i = 0; i < count; ++i) text.push_back(static_cast<char>(i));
  return text;
}

}  // namespace ballast::testing
