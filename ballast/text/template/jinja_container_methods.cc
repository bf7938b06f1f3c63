// Methods of mappings, lists and loops.
#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_tables.h"

namespace ballast::jinja {

namespace {

Result<Value> method_get(Call& call) {
  for (const auto& [key, value] : call.self.mapping()->entries) {
    BALLAST_TRY(const bool same, equal(call.meter, key, *call.get(0)));
    if (same) return value;
  }
  return call.get(1) != nullptr ? *call.get(1) : Value(None());
}

Result<Value> method_items(Call& call) {
  BALLAST_TRY(const Value pairs, call.renderer.apply_filter("items", call.self, {}));
  return make_sequence(call.meter, pairs.sequence()->items);
}

Result<Value> method_keys(Call& call) {
  BALLAST_TRY(std::vector<Value> keys, iterate(call.meter, call.self));
  return make_sequence(call.meter, std::move(keys));
}

Result<Value> method_values(Call& call) {
  std::vector<Value> values;
  for (const auto& [key, value] : call.self.mapping()->entries) values.push_back(value);
  return make_sequence(call.meter, std::move(values));
}

Result<Value> method_copy(Call& call) { return call.self; }

constexpr Builtin kMappingMethods[] = {
    {"get", "key default", 1, method_get}, {"items", "", 0, method_items}, {"keys", "", 0, method_keys},
    {"values", "", 0, method_values},      {"copy", "", 0, method_copy},
};

Result<Value> method_position(Call& call) {
  const auto& items = call.self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    BALLAST_TRY(const bool same, equal(call.meter, items[i], *call.get(0)));
    if (same) return Value(static_cast<int64_t>(i));
  }
  return type_error("the list does not have that value");
}

Result<Value> method_count_items(Call& call) {
  int64_t count = 0;
  for (const Value& item : call.self.sequence()->items) {
    BALLAST_TRY(const bool same, equal(call.meter, item, *call.get(0)));
    count += same ? 1 : 0;
  }
  return Value(count);
}

constexpr Builtin kSequenceMethods[] = {
    {"index", "value", 1, method_position},
    {"count", "value", 1, method_count_items},
    {"copy", "", 0, method_copy},
};

Result<Value> method_cycle(Call& call) {
  const auto& choices = call.arguments.positional;
  if (choices.empty()) return type_error("no items for cycling given");
  return choices[call.self.loop()->index % choices.size()];
}

Result<Value> method_has_changed(Call& call) {
  BALLAST_TRY(Value now, make_sequence(call.meter, call.arguments.positional, Sequence::Kind::kTuple));
  std::optional<Value>& before = call.renderer.last_seen(*call.self.loop());
  bool same = before.has_value();
  if (same) BALLAST_CHECK(assign(same, equal(call.meter, *before, now)));
  before = std::move(now);
  return Value(!same);
}

constexpr Builtin kLoopMethods[] = {{"cycle", "*", 0, method_cycle}, {"changed", "*", 0, method_has_changed}};

}  // namespace

std::span<const Builtin> mapping_methods() { return kMappingMethods; }
std::span<const Builtin> sequence_methods() { return kSequenceMethods; }
std::span<const Builtin> loop_methods() { return kLoopMethods; }

}  // namespace ballast::jinja
