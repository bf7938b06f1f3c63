// Functions that templates find without being given them.
#include <fmt/format.h>

#include "ballast/text/template/clock_text.h"
#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_print.h"
#include "ballast/text/template/jinja_tables.h"

namespace ballast::jinja {

namespace {

constexpr int64_t kMostRange = 100'000;

Result<Value> function_raise(Call& call) {
  BALLAST_TRY(const Text message, printed(call.meter, *call.get(0)));
  return call.renderer.raise(message.bytes());
}

Result<Value> function_strftime_now(Call& call) {
  BALLAST_TRY(const Text* format, call.text(0));
  BALLAST_CHECK(call.meter.check_room(format->size() * 16));
  BALLAST_TRY(const std::string text, format_clock_time(format->bytes(), call.renderer.now()));
  return make_text(call.meter, text);
}

// Entries of dict(a=1) and namespace(a=1), also of dict({'a': 1}, b=2).
Result<std::vector<std::pair<Value, Value>>> given_entries(Call& call) {
  std::vector<std::pair<Value, Value>> entries;
  if (call.arguments.positional.size() > 1) return type_error("expected at most 1 argument without a name");
  for (const Value& value : call.arguments.positional) {
    const Mapping* mapping = value.mapping();
    if (mapping == nullptr) return type_error(fmt::format("a '{}' cannot become a mapping", type_name(value)));
    entries = mapping->entries;
  }
  for (const auto& [name, value] : call.arguments.named) {
    BALLAST_TRY(Value key, make_text(call.meter, name));
    entries.emplace_back(std::move(key), value);
  }
  return entries;
}

Result<Value> function_dict(Call& call) {
  BALLAST_TRY(auto entries, given_entries(call));
  return make_mapping(call.meter, std::move(entries));
}

Result<Value> function_namespace(Call& call) {
  BALLAST_TRY(const auto entries, given_entries(call));
  std::vector<std::pair<std::string, Value>> fields;
  for (const auto& [key, value] : entries) {
    if (key.text() == nullptr) return type_error("the fields of a namespace have names");
    fields.emplace_back(key.text()->bytes(), value);
  }
  return call.renderer.make_namespace(std::move(fields));
}

Result<Value> function_range(Call& call) {
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) BALLAST_CHECK(assign(bounds[i], call.integer(i, bounds[i])));
  if (call.get(1) == nullptr) std::swap(bounds[0], bounds[1]);
  const auto [from, to, step] = bounds;
  if (step == 0) return type_error("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t at = from; step > 0 ? at < to : at > to;) {
    if (items.size() >= static_cast<size_t>(kMostRange)) {
      return type_error(fmt::format("Range too big. The limit is {} steps.", kMostRange));
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  BALLAST_CHECK(call.meter.step(items.size() / 16));
  return make_sequence(call.meter, std::move(items));
}

constexpr Builtin kFunctions[] = {
    {"raise_exception", "message", 1, function_raise}, {"strftime_now", "format", 1, function_strftime_now},
    {"namespace", "*", 0, function_namespace},         {"dict", "*", 0, function_dict},
    {"range", "start stop step", 1, function_range},
};

}  // namespace

std::span<const Builtin> functions() { return kFunctions; }

}  // namespace ballast::jinja
