// Protocol buffers: the wire format, one field after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

// Never goes beyond its bytes and copies none of them. Groups, which nothing writes any more, are kUnsupported.
class ProtobufReader {
 public:
  enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  struct Field {
    uint32_t number = 0;
    Wire wire = Wire::kVarint;
    uint64_t value = 0;      // of a varint or a fixed number, its bits
    std::string_view bytes;  // of a text or a message inside
  };

  // `where` names the message in errors.
  ProtobufReader(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  // False at the end.
  Result<bool> next(Field& field);

 private:
  Result<uint64_t> take_varint();
  Result<uint64_t> take_fixed(size_t size);
  Error corrupt(std::string_view what) const;

  std::string_view bytes_;
  size_t at_ = 0;
  std::string where_;
};

}  // namespace ballast
