#include "bindings/wasm/reply.h"

#include <cstdlib>
#include <new>

#include "ballast/base/remedy.h"
#include "bindings/wasm/javascript.h"

extern "C" {
// Does not return: JavaScript throws.
BALLAST_IMPORT("out_of_memory") void ballast_import_out_of_memory();

BALLAST_EXPORT("ballast_start") void ballast_wasm_start() {
  std::set_new_handler([] { ballast_import_out_of_memory(); });
}

// Null where there is no memory left.
BALLAST_EXPORT("ballast_alloc") void* ballast_wasm_alloc(uint32_t size) { return malloc(size); }
BALLAST_EXPORT("ballast_free") void ballast_wasm_free(void* memory) { free(memory); }
}

namespace ballast::wasm {

void write_error(JsonWriter& json, const Error& error) {
  json.key("error").begin_object();
  json.key("code").string(error_code_name(error.code));
  json.key("message").string(error.message);
  json.key("remedies").begin_array();
  for (unsigned i = 0; i <= static_cast<unsigned>(kLastRemedy); ++i) {
    const auto remedy = static_cast<Remedy>(i);
    if (!error.remedies.has(remedy)) continue;
    json.begin_object().key("word").string(remedy_name(remedy)).key("text").string(remedy_text(remedy)).end_object();
  }
  json.end_array().end_object();
}

const void* Reply::give(std::string json, ByteVector bytes) {
  json_ = std::move(json);
  bytes_ = std::move(bytes);
  shown_ = {json_.data(), static_cast<uint32_t>(json_.size()), bytes_.data(), static_cast<uint32_t>(bytes_.size())};
  return &shown_;
}

}  // namespace ballast::wasm
