#include "tests/support/burnpack_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/format_testing.h"
#include "tests/support/places.h"

namespace ballast::testing {

std::vector<std::string> burnpack_fixtures() {
  const std::filesystem::path root = std::filesystem::path(test_data_folder()) / "burnpack";
  std::vector<std::string> fixtures;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".bpk") fixtures.push_back(entry.path().lexically_relative(root).string());
  }
  std::ranges::sort(fixtures);
  return fixtures;
}

ByteVector read_burnpack(const std::string& fixture) { return read_test_data("burnpack/" + fixture); }

ByteVector burnpack_file(ByteSpan cbor, ByteSpan data, bool unaligned) {
  std::string file = "NRUB";
  append_le<uint16_t>(file, 1);
  append_le<uint32_t>(file, static_cast<uint32_t>(cbor.size()));
  file += as_text(cbor);
  if (!unaligned) file.resize((file.size() + 255) / 256 * 256);
  file += as_text(data);
  return to_byte_vector(file);
}

MetadataText& MetadataText::hex(std::string_view digits) {
  bytes += as_text(from_hex(digits));
  return *this;
}

std::string descriptor(std::string_view dtype_hex, const std::vector<uint64_t>& shape, uint64_t begin, uint64_t end) {
  MetadataText text;
  text.add(CborWriter().map(3).text("dtype")).hex(dtype_hex);
  CborWriter rest;
  rest.text("shape").array(shape.size());
  for (const uint64_t dim : shape) rest.unsigned_number(dim);
  rest.text("data_offsets").array(2).unsigned_number(begin).unsigned_number(end);
  return text.add(rest).bytes;
}

ByteVector tensors_metadata(const std::vector<NamedDescriptor>& tensors) {
  MetadataText text;
  text.add(CborWriter().map(1).text("tensors").map(tensors.size()));
  for (const NamedDescriptor& tensor : tensors) {
    text.add(CborWriter().text(tensor.name));
    text.bytes += tensor.bytes;
  }
  return to_byte_vector(text.bytes);
}

TensorInfo plain_tensor(std::string name, DType dtype, Shape shape, std::optional<uint64_t> param_id) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = dtype;
  info.byte_size = *packed_size(shape, dtype);
  info.shape = std::move(shape);
  info.param_id = param_id;
  return info;
}

TensorInfo quantised_tensor(std::string name, std::string scheme, Shape shape, uint64_t byte_size) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = DType::kQFloat;
  info.byte_size = byte_size;
  info.shape = std::move(shape);
  info.set_scheme(std::move(scheme));
  return info;
}

ByteVector nonzero_bytes(size_t count) {
  ByteVector bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 255 + 1);
  return bytes;
}

}  // namespace ballast::testing
