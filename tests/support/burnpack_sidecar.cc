#include "tests/support/burnpack_sidecar.h"

#include <gtest/gtest.h>

#include <functional>

#include "ballast/base/json.h"
#include "tests/support/format_testing.h"

namespace ballast::testing {

namespace {

Status for_each_key(JsonReader& json, const std::function<Status(const std::string&)>& read_value) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    BALLAST_CHECK(read_value(key));
  }
}

Status for_each_element(JsonReader& json, const std::function<Status()>& read_value) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_CHECK(read_value());
  }
}

Status read_tensor(JsonReader& json, SidecarTensor& tensor) {
  return for_each_key(json, [&](const std::string& key) -> Status {
    if (key == "dtype") {
      BALLAST_TRY(tensor.dtype, json.read_string());
    } else if (key == "sha256") {
      BALLAST_TRY(tensor.sha256, json.read_string());
    } else if (key == "byte_len") {
      BALLAST_TRY(tensor.byte_len, json.read_u64());
    } else if (key == "shape") {
      return for_each_element(json, [&]() -> Status {
        BALLAST_TRY(const uint64_t dim, json.read_u64());
        tensor.shape.push_back(dim);
        return {};
      });
    } else if (key == "param_id") {
      BALLAST_TRY(const JsonType type, json.peek());
      if (type == JsonType::kNull) return json.read_null();
      BALLAST_TRY(tensor.param_id, json.read_string());
    } else {
      return json.skip_value();
    }
    return {};
  });
}

Status read_scalar(JsonReader& json, std::string& text) {
  return for_each_key(json, [&](const std::string& variant) -> Status {
    text = variant + " ";
    if (variant == "Bool") {
      BALLAST_TRY(const bool value, json.read_bool());
      text += value ? "true" : "false";
      return {};
    }
    if (variant != "Float") {
      BALLAST_TRY(const std::string value, json.read_string());
      text += value;
      return {};
    }
    return for_each_key(json, [&](const std::string& key) -> Status {
      BALLAST_TRY(const std::string value, json.read_string());
      if (key == "bits") text += value;
      return {};
    });
  });
}

Status read_sidecar_field(JsonReader& json, const std::string& key, Sidecar& sidecar) {
  if (key == "crate_version") {
    BALLAST_TRY(sidecar.crate_version, json.read_string());
  } else if (key == "file_sha256") {
    BALLAST_TRY(sidecar.file_sha256, json.read_string());
  } else if (key == "file_size") {
    BALLAST_TRY(sidecar.file_size, json.read_u64());
  } else if (key == "disk_order") {
    BALLAST_TRY(const JsonType type, json.peek());
    if (type == JsonType::kNull) return json.read_null();
    return for_each_element(json, [&]() -> Status {
      BALLAST_TRY(std::string name, json.read_string());
      sidecar.disk_order.push_back(std::move(name));
      return {};
    });
  } else if (key == "tensors") {
    return for_each_key(json, [&](const std::string& name) { return read_tensor(json, sidecar.tensors[name]); });
  } else if (key == "metadata") {
    return for_each_key(json, [&](const std::string& name) -> Status {
      BALLAST_TRY(sidecar.metadata[name], json.read_string());
      return {};
    });
  } else if (key == "scalars") {
    return for_each_key(json, [&](const std::string& name) { return read_scalar(json, sidecar.scalars[name]); });
  } else {
    return json.skip_value();
  }
  return {};
}

}  // namespace

Sidecar read_sidecar(const std::string& path) {
  const ByteVector bytes = read_test_data(path);
  JsonReader json(as_text(bytes), path);
  Sidecar sidecar;
  const Status status =
      for_each_key(json, [&](const std::string& key) { return read_sidecar_field(json, key, sidecar); });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_TRUE(json.finish());
  return sidecar;
}

}  // namespace ballast::testing
