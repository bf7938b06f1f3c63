// GGUF files written by hand, field by field, so that tests can say in them what no writer would.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/formats/meta_array.h"

namespace ballast::testing {

struct GgufTestTensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first
  uint32_t type = 0;
  uint64_t offset = 0;
  std::string data;  // put down in the order of the tensors, each padded
};

class GgufBuilder {
 public:
  template <std::unsigned_integral T>
  static std::string number(T value) {
    std::string out;
    append_le(out, value);
    return out;
  }
  static std::string text(std::string_view bytes) { return number<uint64_t>(bytes.size()) + std::string(bytes); }

  // `value` is the encoded value, whatever the type says.
  GgufBuilder& pair(std::string_view key, MetaType type, std::string_view value) {
    pairs_ += text(key) + number(static_cast<uint32_t>(type)) + std::string(value);
    ++pair_count_;
    return *this;
  }
  GgufBuilder& pair(std::string_view key, uint32_t value) { return pair(key, MetaType::kU32, number(value)); }

  // At the end of what is there.
  GgufBuilder& tensor(std::string name, std::vector<uint64_t> dims, uint32_t type, std::string data) {
    return tensor_at({std::move(name), std::move(dims), type, data_.size(), std::move(data)});
  }
  GgufBuilder& tensor_at(const GgufTestTensor& tensor) {
    rows_ += text(tensor.name) + number(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) rows_ += number(dim);
    rows_ += number(tensor.type) + number(tensor.offset);
    data_ += tensor.data;
    pad(data_);
    ++tensor_count_;
    return *this;
  }
  GgufBuilder& alignment(uint32_t value) {
    alignment_ = value;
    return pair("general.alignment", value);
  }

  std::string build(uint32_t version = 3) const {
    std::string out = "GGUF" + number(version) + number(tensor_count_) + number(pair_count_) + pairs_ + rows_;
    if (tensor_count_ != 0) pad(out);
    return out + data_;
  }

 private:
  void pad(std::string& bytes) const { bytes.resize((bytes.size() + alignment_ - 1) / alignment_ * alignment_, '\0'); }

  uint64_t alignment_ = 32;
  uint64_t pair_count_ = 0;
  uint64_t tensor_count_ = 0;
  std::string pairs_;
  std::string rows_;
  std::string data_;
};

}  // namespace ballast::testing
