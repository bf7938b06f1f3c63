#include "ballast/training/train_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ballast/base/json.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

void add_event(JsonWriter& json, std::string_view key, std::optional<double> value) {
  if (value) json.key(key).real(*value);
}

void add_event(JsonWriter& json, const StepRecord& record) {
  json.key("step").number(record.step);
  add_event(json, "loss", record.loss);
  add_event(json, "lr", record.lr);
  add_event(json, "grad_norm", record.grad_norm);
  json.key("items").number(record.items);
  add_event(json, "seconds", record.seconds);
  if (record.skipped) json.key("skipped").boolean(true);
}

void add_event(JsonWriter& json, const EvalRecord& record) {
  json.key("event").string("eval").key("step").number(record.step);
  add_event(json, "loss", record.loss);
  add_event(json, "accuracy", record.accuracy);
  json.key("items").number(record.items);
  add_event(json, "seconds", record.seconds);
}

void add_event(JsonWriter& json, const CheckpointRecord& record) {
  json.key("event").string("checkpoint").key("step").number(record.step).key("path").string(record.path);
  json.key("bytes").number(record.bytes);
  add_event(json, "paused_seconds", record.paused_seconds);
}

void add_event(JsonWriter& json, const ResumeRecord& record) {
  json.key("event").string("resume").key("step").number(record.step).key("path").string(record.path);
}

void add_event(JsonWriter& json, const WarningRecord& record) {
  json.key("event").string("warning").key("step").number(record.step).key("text").string(record.text);
}

// Every key that any event has; which of them count is decided once all were read.
struct Fields {
  std::string event = "step";
  std::optional<uint64_t> step;
  uint64_t items = 0;
  uint64_t bytes = 0;
  double loss = 0;
  double lr = 0;
  double seconds = 0;
  double paused_seconds = 0;
  std::optional<double> grad_norm;
  std::optional<double> accuracy;
  std::string path;
  std::string text;
  bool skipped = false;
};

Result<double> read_real(JsonReader& reader) {
  BALLAST_TRY(const JsonType type, reader.peek());
  if (type != JsonType::kString) return reader.read_double();
  BALLAST_TRY(const std::string text, reader.read_string());
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return reader.error_here(fmt::format("\"{}\" is no number", text));
}

Status read_field(JsonReader& reader, std::string_view key, Fields& fields) {
  if (key == "event") return assign(fields.event, reader.read_string());
  if (key == "path") return assign(fields.path, reader.read_string());
  if (key == "text") return assign(fields.text, reader.read_string());
  if (key == "step") return assign(fields.step, reader.read_u64());
  if (key == "items") return assign(fields.items, reader.read_u64());
  if (key == "bytes") return assign(fields.bytes, reader.read_u64());
  if (key == "loss") return assign(fields.loss, read_real(reader));
  if (key == "lr") return assign(fields.lr, read_real(reader));
  if (key == "seconds") return assign(fields.seconds, read_real(reader));
  if (key == "paused_seconds") return assign(fields.paused_seconds, read_real(reader));
  if (key == "grad_norm") return assign(fields.grad_norm, read_real(reader));
  if (key == "accuracy") return assign(fields.accuracy, read_real(reader));
  if (key == "skipped") return assign(fields.skipped, reader.read_bool());
  return reader.skip_value();
}

// Calls visit(line, its number) with each whole line; stops at the first error.
template <typename Visit>
Status for_each_line(std::string_view text, const Visit& visit) {
  size_t begin = 0;
  for (uint64_t number = 1;; ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return {};  // a line that was cut
    if (end > begin) BALLAST_CHECK(visit(text.substr(begin, end - begin), number));
    begin = end + 1;
  }
}

Result<ByteVector> read_log_bytes(const std::string& path, uint64_t most) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() <= most) return read_bytes(*source, 0, source->size());
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: a log of {} bytes; at most {} are read", path, source->size(), most));
}

// The lines of the steps that stay, as they are.
Result<std::string> lines_up_to(const std::string& path, uint64_t step) {
  BALLAST_TRY(const ByteVector bytes, read_log_bytes(path, kMostLog));
  std::string kept;
  BALLAST_CHECK(for_each_line(as_text(bytes), [&](std::string_view line, uint64_t number) -> Status {
    auto event = parse_json_line(line, fmt::format("{}:{}", path, number));
    if (!event) return std::move(event).error();
    if (step_of(*event) <= step) kept.append(line).append(1, '\n');
    return {};
  }));
  return kept;
}

}  // namespace

std::string to_json_line(const TrainEvent& event) {
  JsonWriter json;
  json.begin_object();
  std::visit([&](const auto& record) { add_event(json, record); }, event);
  json.end_object();
  return json.take();
}

Result<TrainEvent> parse_json_line(std::string_view line, const std::string& where) {
  JsonReader reader(line, where);
  Fields fields;
  BALLAST_CHECK(reader.enter_object());
  for (std::string key;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    BALLAST_CHECK(read_field(reader, key, fields));
  }
  BALLAST_CHECK(reader.finish());
  if (!fields.step) return make_error(ErrorCode::kCorrupt, fmt::format("{}: a line of a log has a \"step\"", where));
  const uint64_t step = *fields.step;
  if (fields.event == "step") {
    return TrainEvent(
        StepRecord{step, fields.loss, fields.lr, fields.grad_norm, fields.items, fields.seconds, fields.skipped});
  }
  if (fields.event == "eval")
    return TrainEvent(EvalRecord{step, fields.loss, fields.accuracy, fields.items, fields.seconds});
  if (fields.event == "checkpoint")
    return TrainEvent(CheckpointRecord{step, fields.path, fields.bytes, fields.paused_seconds});
  if (fields.event == "resume") return TrainEvent(ResumeRecord{step, fields.path});
  if (fields.event == "warning") return TrainEvent(WarningRecord{step, fields.text});
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: unknown event \"{}\"", where, fields.event));
}

uint64_t step_of(const TrainEvent& event) {
  return std::visit([](const auto& record) { return record.step; }, event);
}

// The first line decides: each line is written whole, so also a run that was killed left one.
Status check_log_place(const std::string& path) {
  constexpr uint64_t kLongestLine = uint64_t{1} << 20;
  return guarded([&]() -> Status {
    const auto source = open_file(path, FileAccess::kPositional);
    if (!source && source.error().code == ErrorCode::kNotFound) return {};
    if (!source) return source.error();
    if ((*source)->size() == 0) return {};
    BALLAST_TRY(const ByteVector bytes, read_bytes(**source, 0, std::min((*source)->size(), kLongestLine)));
    const std::string_view text = as_text(bytes);
    const size_t end = text.find('\n');
    if (end != std::string_view::npos && parse_json_line(text.substr(0, end), path)) return {};
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: exists and is not the log of a run; name another file, or remove it", path));
  });
}

Result<TrainLog> TrainLog::create(const std::string& path, const FileSystem* files) {
  return guarded([&]() -> Result<TrainLog> {
    BALLAST_CHECK(check_log_place(path));
    BALLAST_TRY(AppendFile file, AppendFile::open(path, AppendFile::Start::kEmpty, files));
    return TrainLog(std::move(file));
  });
}

Result<TrainLog> TrainLog::resume(const std::string& path, uint64_t step, const FileSystem* files) {
  return guarded([&]() -> Result<TrainLog> {
    auto kept = lines_up_to(path, step);
    if (!kept && kept.error().code == ErrorCode::kNotFound) return create(path, files);
    if (!kept) {
      return std::move(kept).error().with_context("the log cannot be continued; name another file, or remove this one");
    }
    // The new beginning takes the old file's place at once, so that a crash leaves one or the other.
    AtomicFiles set({.overwrite = true, .sync = false, .file_system = files});
    BALLAST_TRY(ByteSink* const sink, set.add(path, kept->size()));
    BALLAST_CHECK(sink->write_text(*kept));
    BALLAST_CHECK(set.commit());
    BALLAST_TRY(AppendFile file, AppendFile::open(path, AppendFile::Start::kAtEnd, files));
    return TrainLog(std::move(file));
  });
}

Status TrainLog::write(const TrainEvent& event) {
  return guarded([&] { return file_.append(to_json_line(event) + '\n'); });
}

Result<std::vector<TrainEvent>> read_train_log(const std::string& path, uint64_t most) {
  return guarded([&]() -> Result<std::vector<TrainEvent>> {
    BALLAST_TRY(const ByteVector bytes, read_log_bytes(path, most));
    std::vector<TrainEvent> events;
    BALLAST_CHECK(for_each_line(as_text(bytes), [&](std::string_view line, uint64_t number) -> Status {
      auto event = parse_json_line(line, fmt::format("{}:{}", path, number));
      if (!event) return std::move(event).error();
      events.push_back(std::move(*event));
      return {};
    }));
    return events;
  });
}

}  // namespace ballast
