#include "ballast/text/tokenizer/protobuf.h"

#include <fmt/format.h>

namespace ballast {

Error ProtobufReader::corrupt(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: byte {}: {}", where_, at_, what));
}

Result<uint64_t> ProtobufReader::take_varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ >= bytes_.size()) return corrupt("a number is cut off");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return corrupt("a number has more than 64 bits");
}

Result<uint64_t> ProtobufReader::take_fixed(size_t size) {
  if (bytes_.size() - at_ < size) return corrupt("a number is cut off");
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
  at_ += size;
  return value;
}

Result<bool> ProtobufReader::next(Field& field) {
  if (at_ == bytes_.size()) return false;
  BALLAST_TRY(const uint64_t key, take_varint());
  field = {};
  if (key >> 3 == 0 || key >> 3 > UINT32_MAX) return corrupt("a field without a number");
  field.number = static_cast<uint32_t>(key >> 3);
  switch (key & 7) {
    case 0: {
      BALLAST_TRY(field.value, take_varint());
      return true;
    }
    case 1: {
      field.wire = Wire::kFixed64;
      BALLAST_TRY(field.value, take_fixed(8));
      return true;
    }
    case 2: {
      field.wire = Wire::kBytes;
      BALLAST_TRY(const uint64_t length, take_varint());
      if (length > bytes_.size() - at_)
        return corrupt(fmt::format("field {} of {} bytes goes beyond the end", field.number, length));
      field.bytes = bytes_.substr(at_, length);
      at_ += length;
      return true;
    }
    case 5: {
      field.wire = Wire::kFixed32;
      BALLAST_TRY(field.value, take_fixed(4));
      return true;
    }
    default: return corrupt(fmt::format("field {} is of kind {}, which is not known", field.number, key & 7));
  }
}

}  // namespace ballast
