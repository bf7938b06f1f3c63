// What a call of a module gives back: JSON, and bytes where there are any.
#pragma once

#include <cstdint>
#include <string>

#include "ballast/base/bytes.h"
#include "ballast/base/json.h"
#include "ballast/base/result.h"

namespace ballast::wasm {

// The answer to a call: JSON, and bytes where there are any.
struct Answer {
  JsonWriter json;  // in an object, which whoever made the call closes
  ByteVector bytes;
};

// {"code", "message", "remedies"} as the member "error".
void write_error(JsonWriter& json, const Error& error);

// Keeps what it hands out until the next call: four u32, address and size of the JSON and of the bytes.
class Reply {
 public:
  const void* give(std::string json, ByteVector bytes);
  // What was handed out last takes no memory any more.
  void drop() { give({}, {}); }

 private:
  std::string json_;
  ByteVector bytes_;
  struct {
    const char* json;
    uint32_t json_size;
    const std::byte* bytes;
    uint32_t bytes_size;
  } shown_{};
};

}  // namespace ballast::wasm
