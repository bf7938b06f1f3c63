// The module's interface: memory, and one call that takes and gives JSON: {"ok": {...}} or {"error": {...}}. Of a call
// that aborts nothing can be said; the caller drops the instance then.
#include "bindings/wasm/javascript.h"
#include "bindings/wasm/run/session.h"

namespace ballast::wasm {

namespace {

struct Module {
  Session session;
  Reply reply;
};

Module& module() {
  static Module only;
  return only;
}

// Memory for a file, which the caller fills before it opens the model.
Status file_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(std::string name, request.text("name"));
  BALLAST_TRY(const uint64_t size, request.count("size"));
  constexpr uint64_t kMost = INT32_MAX;  // what a vector can hold here
  if (size > kMost) {
    return make_error(ErrorCode::kOutOfMemory,
                      name + ": " + std::to_string(size) + " bytes; files of 2 GiB and more cannot run here");
  }
  auto& bytes = session.files[std::move(name)] = std::make_unique<ByteVector>(static_cast<size_t>(size));
  answer.json.key("address").number(reinterpret_cast<uintptr_t>(bytes->data()));
  return {};
}

constexpr struct {
  std::string_view name;
  Call call;
} kCalls[] = {{"file", file_call},           {"openText", open_text_call},
              {"tokens", tokens_call},       {"start", start_call},
              {"step", step_call},           {"inspect", inspect_call},
              {"layer", layer_call},         {"openLayers", open_layers_call},
              {"runLayers", run_layers_call}};

Status dispatch(Session& session, std::string_view text, Answer& answer) {
  BALLAST_TRY(const JsonObject request, JsonObject::parse(text, "call"));
  BALLAST_TRY(const std::string op, request.text("op"));
  for (const auto& row : kCalls) {
    if (row.name == op) return row.call(session, request, answer);
  }
  return make_error(ErrorCode::kInvalidArgument, "there is no call \"" + op + "\"");
}

const void* call(std::string_view text) {
  Answer answer;
  answer.json.begin_object().key("ok").begin_object();
  const Status outcome = dispatch(module().session, text, answer);
  if (outcome) return module().reply.give(answer.json.end_object().end_object().take(), std::move(answer.bytes));
  JsonWriter json;
  write_error(json.begin_object(), outcome.error());
  return module().reply.give(json.end_object().take(), {});
}

}  // namespace

}  // namespace ballast::wasm

// What it gives is valid until the next call: four u32, address and size of the JSON and of the bytes.
extern "C" BALLAST_EXPORT("ballast_call") const void* ballast_wasm_call(const char* text, uint32_t size) {
  return ballast::wasm::call({text, size});
}
