#include "tests/support/recorded_netcl.h"

#include <gtest/gtest.h>

#include "ballast/archive/open.h"
#include "ballast/base/json.h"
#include "ballast/tensor/cast.h"
#include "tests/support/json_path.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

// Gives the values and, on the way down the first elements, the lengths.
void read_values(JsonReader& json, size_t depth, std::vector<double>& values, std::vector<uint64_t>& lengths) {
  const auto type = json.peek();
  if (!type || *type != JsonType::kArray) {
    const auto value = json.read_double();
    EXPECT_TRUE(value);
    values.push_back(value ? *value : 0);
    return;
  }
  uint64_t length = 0;
  EXPECT_TRUE(json.enter_array());
  for (auto more = json.next_element(); more && *more; more = json.next_element(), ++length) {
    read_values(json, depth + 1, values, lengths);
  }
  if (lengths.size() <= depth) lengths.resize(depth + 1);
  lengths[depth] = length;
}

}  // namespace

std::string netcl_path(const std::string& name) { return test_file_path("netcl/" + name); }
std::string netcl_expectation(const std::string& name) { return read_text_file(netcl_path(name + ".expect.json")); }

RecordedArray recorded_array(std::string_view json, std::string_view path) {
  const std::string raw = json_at(json, path);
  EXPECT_FALSE(raw.empty()) << path;
  JsonReader reader(raw, "recorded", 0, JsonReader::Dialect::kPython);
  std::vector<double> values;
  std::vector<uint64_t> lengths;
  read_values(reader, 0, values, lengths);
  return {{values.begin(), values.end()}, Dims(lengths)};
}

std::vector<double> recorded_numbers(std::string_view json, std::string_view path) {
  const std::string raw = json_at(json, path);
  EXPECT_FALSE(raw.empty()) << path;
  JsonReader reader(raw, "recorded", 0, JsonReader::Dialect::kPython);
  std::vector<double> values;
  std::vector<uint64_t> lengths;
  read_values(reader, 0, values, lengths);
  return values;
}

RecordedArray archive_array(const std::string& path, const std::string& name) {
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  const auto index = archive->find(name);
  EXPECT_TRUE(index) << name;
  const TensorInfo& info = archive->tensors()[*index];
  const auto payload = archive->payload(*index);
  RecordedArray array{{}, Dims(info.shape.dims())};
  array.values.resize(array.dims.count());
  const MutableByteSpan out(reinterpret_cast<std::byte*>(array.values.data()), array.values.size() * sizeof(float));
  EXPECT_TRUE(cast_elements(info.dtype, payload->bytes(), DType::kF32, out));
  return array;
}

}  // namespace ballast::testing
