// What NumPy and netcl say about the samples, and the comparison with what we read.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "ballast/base/json.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

struct ExpectedTensor {
  std::string name;
  std::string dtype;  // "f32", or as NumPy spells it: "<f4"
  std::string scheme;
  std::vector<uint64_t> shape;
  std::string sha256;
};

inline Result<std::vector<ExpectedTensor>> read_expected_tensors(JsonReader& json) {
  std::vector<ExpectedTensor> tensors;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return tensors;
    ExpectedTensor tensor;
    BALLAST_CHECK(json.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool another, json.next_key(key));
      if (!another) break;
      if (key == "shape") BALLAST_CHECK(assign(tensor.shape, json.read_u64_array()));
      else if (key == "name") BALLAST_CHECK(assign(tensor.name, json.read_string()));
      else if (key == "dtype") BALLAST_CHECK(assign(tensor.dtype, json.read_string()));
      else if (key == "scheme") BALLAST_CHECK(assign(tensor.scheme, json.read_string()));
      else if (key == "sha256") BALLAST_CHECK(assign(tensor.sha256, json.read_string()));
      else return json.error_here("an unknown field");
    }
    tensors.push_back(std::move(tensor));
  }
}

// NumPy's names for the types that the netcl fixtures have.
inline std::string dtype_from_numpy(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      {"<f4", "f32"}, {"<f2", "f16"}, {"<f8", "f64"}, {"<i4", "i32"}, {"<i8", "i64"}};
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

inline void expect_tensors(const Archive& archive, const std::vector<ExpectedTensor>& expected) {
  ASSERT_EQ(archive.tensors().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(expected[i].name);
    const TensorInfo& tensor = archive.tensors()[i];
    EXPECT_EQ(tensor.name, expected[i].name);
    EXPECT_EQ(dtype_name(tensor.dtype), dtype_from_numpy(expected[i].dtype));
    if (expected[i].scheme.starts_with("sha256:")) {
      EXPECT_EQ("sha256:" + sha256_hex(as_bytes(tensor.scheme())), expected[i].scheme);
    } else {
      EXPECT_EQ(tensor.scheme(), expected[i].scheme);
    }
    EXPECT_EQ(tensor.shape, Shape(expected[i].shape));
    const auto payload = archive.payload(i);
    ASSERT_TRUE(payload.has_value()) << payload.error().message;
    EXPECT_EQ(payload->bytes().size(), tensor.byte_size);
    EXPECT_EQ(sha256_hex(payload->bytes()), expected[i].sha256);
  }
}

// tests/data/npz/expected.json
inline const std::map<std::string, std::vector<ExpectedTensor>>& numpy_samples() {
  static const auto samples = [] {
    std::map<std::string, std::vector<ExpectedTensor>> result;
    const ByteVector bytes = read_test_data("npz/expected.json");
    JsonReader json(as_text(bytes), "expected.json");
    const auto parse = [&]() -> Status {
      BALLAST_CHECK(json.enter_object());
      std::string key;
      for (;;) {
        BALLAST_TRY(const bool more, json.next_key(key));
        if (!more) return {};
        BALLAST_TRY(result[key], read_expected_tensors(json));
      }
    };
    const auto parsed = parse();
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
    return result;
  }();
  return samples;
}

inline std::vector<std::string> samples_ending_with(std::string_view ending) {
  std::vector<std::string> names;
  for (const auto& [name, tensors] : numpy_samples()) {
    if (name.ends_with(ending)) names.push_back(name);
  }
  return names;
}

}  // namespace ballast::testing
