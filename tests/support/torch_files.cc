#include "tests/support/torch_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ballast/base/json.h"
#include "tests/support/json_path.h"
#include "tests/support/places.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

namespace {

const std::string kFolder = test_data_folder() + "/torch_files/";

// Segments are joined by '/', in which '/' is "~1" and '~' is "~0"; keys that are no texts stand in angle brackets.
std::string dotted(std::string_view path) {
  std::string name;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    std::string_view segment = path.substr(begin, end - begin);
    if (segment.starts_with('<') && segment.ends_with('>')) segment = segment.substr(1, segment.size() - 2);
    if (begin > 0) name += '.';
    for (size_t i = 0; i < segment.size(); ++i) {
      if (segment[i] != '~') name += segment[i];
      else name += segment[++i] == '1' ? '/' : '~';
    }
    begin = end + 1;
  }
  return name;
}

std::vector<uint64_t> read_dims(std::string_view raw) {
  std::vector<uint64_t> numbers;
  JsonReader json(raw, "shape");
  if (!json.enter_array()) return numbers;
  while (json.next_element().value()) numbers.push_back(json.read_u64().value());
  return numbers;
}

TorchSidecarTensor read_torch_tensor_row(std::string name, const std::string& json) {
  TorchSidecarTensor tensor;
  tensor.name = std::move(name);
  tensor.type = json_string(json_at(json, "dtype"));
  tensor.shape = read_dims(json_at(json, "shape"));
  tensor.sha256 = json_string(json_at(json, "sha256"));
  tensor.requires_grad = json_at(json, "requires_grad") == "true";
  if (!json_at(json, "attributes").empty()) tensor.attributes = json_members(json, "attributes");
  return tensor;
}

std::vector<std::vector<std::string>> read_groups(std::string_view raw) {
  std::vector<std::vector<std::string>> groups;
  JsonReader json(raw, "groups");
  if (!json.enter_array()) return groups;
  while (json.next_element().value()) {
    groups.emplace_back();
    EXPECT_TRUE(json.enter_array());
    while (json.next_element().value()) groups.back().push_back(dotted(json.read_string().value()));
  }
  return groups;
}

}  // namespace

std::vector<std::string> torch_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "files")) {
    const std::string name = entry.path().filename().string();
    if (std::filesystem::exists(entry.path().string() + ".json")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

TorchSidecar read_torch_sidecar(const std::string& file) {
  const std::string text = read_text_file(kFolder + "files/" + file + ".json");
  TorchSidecar sidecar;
  sidecar.expect = json_string(json_at(text, "expect"));
  const bool is_one_tensor = json_keys(text, "containers").empty();
  for (const auto& [path, json] : json_members(text, "tensors")) {
    sidecar.tensors.push_back(read_torch_tensor_row(is_one_tensor ? "tensor" : dotted(path), json));
  }
  for (const auto& [path, json] : json_members(text, "leaves")) sidecar.leaves.push_back({dotted(path), json});
  sidecar.shared = read_groups(json_at(text, "share_one_storage"));
  return sidecar;
}

std::vector<TorchAttack> torch_attacks() {
  const std::string text = read_text_file(kFolder + "attacks/index.json");
  std::vector<TorchAttack> attacks;
  JsonReader json(text, "index.json");
  if (!json.enter_array()) return attacks;
  while (json.next_element().value()) {
    const std::string row(json.read_raw().value());
    attacks.push_back({json_string(json_at(row, "file")), json_string(json_at(row, "expect")),
                       json_string(json_at(row, "why")), json_at(row, "tolerable") == "true"});
  }
  return attacks;
}

}  // namespace ballast::testing
