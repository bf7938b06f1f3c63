#include "tests/support/test_files.h"

#include <cctype>
#include <cstdlib>
#include <iostream>

#include "tests/support/format_testing.h"
#include "tests/support/places.h"

namespace ballast::testing {

std::string test_file_path(const std::string& name) { return test_data_folder() + "/" + name; }

std::string test_name(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text;
}

TensorInfo make_info(std::string name, DType dtype, Shape shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = dtype;
  info.byte_size = packed_size(shape, dtype).value_or(0);
  info.shape = std::move(shape);
  return info;
}

ByteVector counting_bytes(size_t count, unsigned first) {
  ByteVector bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

Archive open_or_die(const FormatDriver& driver, ByteVector bytes) {
  auto archive = open_bytes(driver, std::move(bytes));
  if (archive) return std::move(*archive);
  std::cerr << archive.error().message << std::endl;
  std::abort();
}

}  // namespace ballast::testing
