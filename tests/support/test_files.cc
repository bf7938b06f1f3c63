#include "tests/support/test_files.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

namespace ballast::testing {

std::string test_file_path(const std::string& name) { return std::string(BALLAST_TEST_DATA) + "/" + name; }

ByteVector read_test_file(const std::string& name) {
  std::ifstream file(test_file_path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << "missing test file " << name;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
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

Archive open_or_die(const FormatDriver& driver, ByteVector bytes, std::string file_name) {
  Findings findings = Findings::stop_at_first_error();
  auto archive = driver.open({MemorySource::owning(std::move(bytes)), std::move(file_name), "", nullptr}, findings);
  if (!archive) {
    ADD_FAILURE() << archive.error().message;
    std::cerr << archive.error().message << std::endl;
    std::abort();
  }
  return std::move(*archive);
}

Result<ByteVector> reencode(const FormatDriver& driver, const Archive& archive, const WriteOptions& options) {
  return write_archive_bytes(driver, make_plan(archive), options);
}

Result<ByteVector> reencode(const FormatDriver& driver, const Archive& archive) {
  WriteOptions options;
  options.keep_order = true;
  options.allow_half = true;
  return reencode(driver, archive, options);
}

std::string sha256_hex(ByteSpan bytes) {
  std::byte digest[32];
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest), nullptr, EVP_sha256(), nullptr);
  return to_hex(digest);
}

}  // namespace ballast::testing
