// The module's interface: memory, ranges of sources, and one call that takes and gives JSON.
//
// A call answers {"missing": [[source, offset, length], ...]} where it needs bytes that were not put yet: whoever
// called puts them and calls again. Otherwise {"ok": {...}} or {"error": {...}}. Work answers {"done": d, "total": t}
// until it is finished. Of a call that aborts nothing can be said; the caller replaces the module then.
#include <algorithm>
#include <cstdlib>

#include "bindings/wasm/javascript.h"
#include "bindings/wasm/session.h"

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

void write_missing(JsonWriter& json, const MissingRanges& missing) {
  json.key("missing").begin_array();
  for (const MissingRange& range : missing.all()) {
    json.begin_array().number(range.source).number(range.offset).number(range.length).end_array();
  }
  json.end_array();
}

Result<bool> add_source_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const uint64_t size, request.count("size"));
  BALLAST_TRY(std::string name, request.text("name"));
  answer.json.key("source").number(session.add_source(size, std::move(name)));
  return true;
}

Result<bool> remove_call(Session& session, const JsonObject& request, Answer&) {
  BALLAST_TRY(const uint64_t id, request.count("id"));
  session.remove_work(static_cast<uint32_t>(id));
  session.remove_archive(static_cast<uint32_t>(id));
  session.remove_source(static_cast<uint32_t>(id));
  return true;
}

Result<bool> trim_call(Session& session, const JsonObject&, Answer&) {
  session.drop_cached();
  return true;
}

Result<bool> step_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const uint64_t id, request.count("work"));
  Work* const work = session.work(static_cast<uint32_t>(id));
  if (work == nullptr) return make_error(ErrorCode::kInvalidArgument, "this work is over");
  BALLAST_TRY(const bool finished, work->step(answer));
  answer.json.key("done").number(work->done).key("total").number(work->total).key("finished").boolean(finished);
  return true;
}

constexpr CallRow kCalls[] = {{"source", add_source_call}, {"remove", remove_call},  {"trim", trim_call},
                              {"step", step_call},         {"open", open_call},      {"values", values_call},
                              {"scales", scales_call},     {"payload", payload_call}};

constexpr StartRow kStarts[] = {{"stats", start_stats},
                                {"digest", start_digest},
                                {"verify", start_verify},
                                {"compare", start_compare},
                                {"singular", start_singular}};

template <typename Row>
const Row* find_row(std::span<const Row> rows, std::span<const Row> more, std::string_view name) {
  for (const std::span<const Row> table : {rows, more}) {
    const auto found = std::ranges::find(table, name, &Row::name);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

Result<bool> dispatch(Session& session, std::string_view text, Answer& answer) {
  BALLAST_TRY(const JsonObject request, JsonObject::parse(text, "call"));
  BALLAST_TRY(const std::string op, request.text("op"));
  if (const CallRow* const row = find_row<CallRow>(kCalls, kMoreCalls, op)) return row->call(session, request, answer);
  if (const StartRow* const row = find_row<StartRow>(kStarts, kMoreStarts, op)) {
    BALLAST_TRY(std::unique_ptr<Work> work, row->start(session, request));
    answer.json.key("work").number(session.add_work(std::move(work)));
    return true;
  }
  return make_error(ErrorCode::kInvalidArgument, "there is no call \"" + op + "\"");
}

const void* call(std::string_view text) {
  Module& self = module();
  self.reply.drop();
  self.session.missing().clear();
  self.session.missing().guesses = false;
  Answer answer;
  answer.json.begin_object().key("ok").begin_object();
  const auto outcome = dispatch(self.session, text, answer);
  JsonWriter json;
  if (!self.session.missing().empty()) {
    write_missing(json.begin_object(), self.session.missing());
  } else if (!outcome) {
    write_error(json.begin_object(), outcome.error());
  } else {
    return self.reply.give(answer.json.end_object().end_object().take(), std::move(answer.bytes));
  }
  return self.reply.give(json.end_object().take(), {});
}

}  // namespace

}  // namespace ballast::wasm

extern "C" {

// Takes over the memory. Offsets are doubles: whole up to 2^53.
BALLAST_EXPORT("ballast_put")
void ballast_wasm_put(uint32_t source, double offset, std::byte* bytes, uint32_t length) {
  if (auto* const to = ballast::wasm::module().session.source(source); to != nullptr) {
    to->put(static_cast<uint64_t>(offset), bytes, length);
  } else {
    free(bytes);
  }
}

// What it gives is valid until the next call: four u32, address and size of the JSON and of the bytes.
BALLAST_EXPORT("ballast_call") const void* ballast_wasm_call(const char* text, uint32_t size) {
  return ballast::wasm::call({text, size});
}
}
