#include "tests/support/block_recordings.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "ballast/formats/drivers.h"
#include "tests/support/bytes_of.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

ByteVector recorded_bytes(const std::string& file, const std::string& tensor) {
  const Archive archive = open_or_die(kSafetensorsDriver, read_test_data("blocks/" + file + ".safetensors"));
  const auto index = archive.find(tensor);
  if (!index) {
    std::cerr << "no recording of " << tensor << " in " << file << std::endl;
    std::abort();
  }
  const auto payload = archive.payload(*index);
  return {payload->bytes().begin(), payload->bytes().end()};
}

}  // namespace

std::vector<DType> recorded_block_types() {
  std::vector<DType> found;
  for (const DTypeInfo& row : all_dtypes()) {
    const std::string path = test_file_path("blocks/" + std::string(row.name) + ".safetensors");
    if (std::filesystem::exists(path)) found.push_back(row.dtype);
  }
  return found;
}

BlockRecording block_recording(DType dtype, const std::string& tensor) {
  const std::string file(dtype_name(dtype));
  return {recorded_bytes(file, tensor + ".blocks"), values_of<float>(recorded_bytes(file, tensor + ".expected"))};
}

std::vector<float> block_source(const std::string& tensor) {
  return values_of<float>(recorded_bytes("sources", tensor));
}

bool same_number(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == 0 || b == 0) return a == b;
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace ballast::testing
