// Filters that go through lists and mappings.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/base/checked.h"
#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_operators.h"
#include "ballast/text/template/jinja_tables.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

Result<Value> make_generator(Meter& meter, std::vector<Value> items) {
  return make_sequence(meter, std::move(items), Sequence::Kind::kGenerator);
}

// "a.b.0": fields and positions, one after the other; a missing one is undefined.
Result<Value> value_at_path(Call& call, const Value& value, const Value& path) {
  if (path.text() == nullptr) return call.renderer.item(value, path);
  Value at = value;
  BALLAST_TRY(const std::vector<Value> parts, [&]() -> Result<std::vector<Value>> {
    const Text dot(".");
    return split_text(call.meter, *path.text(), &dot, -1);
  }());
  for (const Value& part : parts) {
    const std::string& name = part.text()->bytes();
    int64_t index = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = failure == std::errc() && end == name.data() + name.size();
    BALLAST_CHECK(assign(at, call.renderer.item(at, number ? Value(index) : part)));
  }
  return at;
}

// What items are compared by: an attribute of them, texts without regard to case.
Result<Value> comparison_key(Call& call, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) BALLAST_CHECK(assign(key, value_at_path(call, item, *attribute)));
  if (case_sensitive || key.text() == nullptr) return key;
  BALLAST_CHECK(call.meter.step(key.text()->size() / kBytesPerStep));
  return make_text(call.meter, cased(*key.text(), CaseChange::kLower));
}

struct KeyedItem {
  Value key;
  Value item;
};

Result<std::vector<KeyedItem>> keyed_items(Call& call, const Value* attribute, bool case_sensitive) {
  BALLAST_TRY(std::vector<Value> items, iterate(call.meter, call.self));
  std::vector<KeyedItem> keyed;
  for (Value& item : items) {
    BALLAST_TRY(Value key, comparison_key(call, item, attribute, case_sensitive));
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

Status sort_by_key(Meter& meter, std::vector<KeyedItem>& items, bool reverse) {
  std::optional<Error> failure;
  std::ranges::stable_sort(items, [&](const KeyedItem& a, const KeyedItem& b) {
    if (failure) return false;
    auto before = reverse ? less(meter, b.key, a.key) : less(meter, a.key, b.key);
    if (!before) failure = before.error();
    return before && *before;
  });
  if (failure) return *failure;
  return {};
}

std::vector<Value> items_of(std::vector<KeyedItem> keyed) {
  std::vector<Value> items;
  for (KeyedItem& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

// ---------------------------------------------------------------- whole lists

Result<Value> filter_length(Call& call) {
  BALLAST_TRY(const int64_t length, length_of(call.self));
  return Value(length);
}

Result<Value> filter_list(Call& call) {
  BALLAST_TRY(std::vector<Value> items, iterate(call.meter, call.self));
  return make_sequence(call.meter, std::move(items));
}

Result<Value> filter_first(Call& call) {
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, call.self));
  return items.empty() ? make_undefined("No first item, sequence was empty.") : items.front();
}

Result<Value> filter_last(Call& call) {
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, call.self));
  return items.empty() ? make_undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> filter_reverse(Call& call) {
  if (call.self.text() != nullptr) return slice(call.meter, call.self, None(), None(), int64_t{-1});
  BALLAST_TRY(std::vector<Value> items, iterate(call.meter, call.self));
  std::ranges::reverse(items);
  return make_generator(call.meter, std::move(items));
}

Result<Value> filter_join(Call& call) {
  BALLAST_TRY(std::vector<Value> items, iterate(call.meter, call.self));
  if (call.get(1) != nullptr && !call.get(1)->is_none()) {
    for (Value& item : items) BALLAST_CHECK(assign(item, value_at_path(call, item, *call.get(1))));
  }
  BALLAST_TRY(const Text* separator, call.text(0));
  BALLAST_TRY(Text text, joined_values(call.meter, items, separator != nullptr ? *separator : Text()));
  return make_text(call.meter, std::move(text));
}

Result<Value> filter_sum(Call& call) {
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, call.self));
  Value total = call.get(1) != nullptr ? *call.get(1) : Value(int64_t{0});
  for (const Value& item : items) {
    Value value = item;
    if (call.get(0) != nullptr && !call.get(0)->is_none()) {
      BALLAST_CHECK(assign(value, value_at_path(call, item, *call.get(0))));
    }
    BALLAST_CHECK(assign(total, compute(call.meter, Operator::kAdd, total, value)));
  }
  return total;
}

Result<Value> filter_sort(Call& call) {
  BALLAST_TRY(auto items, keyed_items(call, call.get(2), call.flag(1)));
  BALLAST_CHECK(sort_by_key(call.meter, items, call.flag(0)));
  return make_sequence(call.meter, items_of(std::move(items)));
}

Result<Value> filter_unique(Call& call) {
  BALLAST_TRY(const auto items, keyed_items(call, call.get(1), call.flag(0)));
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const KeyedItem& entry : items) {
    bool known = false;
    for (size_t i = 0; i < seen.size() && !known; ++i) {
      BALLAST_CHECK(assign(known, equal(call.meter, seen[i], entry.key)));
    }
    if (known) continue;
    seen.push_back(entry.key);
    kept.push_back(entry.item);
  }
  return make_generator(call.meter, std::move(kept));
}

Result<Value> filter_groupby(Call& call) {
  const auto key_of = [&](const Value& item) -> Result<Value> {
    BALLAST_TRY(Value key, value_at_path(call, item, *call.get(0)));
    return key.is_undefined() && call.get(1) != nullptr ? *call.get(1) : key;
  };
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, call.self));
  std::vector<KeyedItem> keyed;
  for (const Value& item : items) {
    BALLAST_TRY(const Value key, key_of(item));
    BALLAST_TRY(Value compared, comparison_key(call, key, nullptr, call.flag(2)));
    keyed.push_back({std::move(compared), item});
  }
  BALLAST_CHECK(sort_by_key(call.meter, keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members = {keyed[begin].item};  // what is no number equals not even itself
    for (size_t i = begin + 1; i < keyed.size(); ++i) {
      BALLAST_TRY(const bool same, equal(call.meter, keyed[begin].key, keyed[i].key));
      if (!same) break;
      members.push_back(keyed[i].item);
    }
    BALLAST_TRY(Value name, key_of(members.front()));
    begin += members.size();
    BALLAST_TRY(Value list, make_sequence(call.meter, std::move(members)));
    BALLAST_TRY(Value group, make_sequence(call.meter, {std::move(name), std::move(list)}, Sequence::Kind::kGroup));
    groups.push_back(std::move(group));
  }
  return make_sequence(call.meter, std::move(groups));
}

Result<Value> filter_batch(Call& call) {
  BALLAST_TRY(const int64_t size, call.integer(0, 1));
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, call.self));
  if (size < 1) return type_error("batch: at least one item each");
  std::vector<Value> batches;
  for (size_t at = 0; at < items.size(); at += static_cast<size_t>(size)) {
    const size_t count = std::min<size_t>(static_cast<size_t>(size), items.size() - at);
    std::vector<Value> batch(items.begin() + static_cast<ptrdiff_t>(at),
                             items.begin() + static_cast<ptrdiff_t>(at + count));
    if (const Value* fill = call.get(1); fill != nullptr && !fill->is_none()) {
      const auto bytes = checked_mul(static_cast<uint64_t>(size), uint64_t{sizeof(Value)});
      BALLAST_CHECK(call.meter.check_room(bytes.value_or(UINT64_MAX)));
      batch.resize(static_cast<size_t>(size), *fill);
    }
    BALLAST_TRY(Value made, make_sequence(call.meter, std::move(batch)));
    batches.push_back(std::move(made));
  }
  return make_generator(call.meter, std::move(batches));
}

template <bool kGreatest>
Result<Value> filter_extreme(Call& call) {
  BALLAST_TRY(auto items, keyed_items(call, call.get(1), call.flag(0)));
  if (items.empty()) return make_undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    BALLAST_TRY(const bool better, kGreatest ? less(call.meter, items[best].key, items[i].key)
                                             : less(call.meter, items[i].key, items[best].key));
    if (better) best = i;
  }
  return items[best].item;
}

// ---------------------------------------------------------------- mappings

Result<std::vector<Value>> entry_pairs(Meter& meter, const Mapping& mapping) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : mapping.entries) {
    BALLAST_TRY(Value pair, make_sequence(meter, {key, value}, Sequence::Kind::kTuple));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> filter_items(Call& call) {
  if (call.self.is_undefined()) return make_generator(call.meter, {});
  const Mapping* mapping = call.self.mapping();
  if (mapping == nullptr) return type_error("Can only get item pairs from a mapping.");
  BALLAST_TRY(std::vector<Value> pairs, entry_pairs(call.meter, *mapping));
  return make_generator(call.meter, std::move(pairs));
}

Result<Value> filter_dictsort(Call& call) {
  const Mapping* mapping = call.self.mapping();
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (mapping == nullptr) return type_error(fmt::format("'{}' object has no attribute 'items'", type_name(call.self)));
  BALLAST_TRY(const Text* by, call.text(1));
  const bool by_value = by != nullptr && by->bytes() == "value";
  if (by != nullptr && !by_value && by->bytes() != "key") {
    return type_error("You can only sort by either \"key\" or \"value\"");
  }
  BALLAST_TRY(std::vector<Value> pairs, entry_pairs(call.meter, *mapping));
  std::vector<KeyedItem> items;
  for (Value& pair : pairs) {
    BALLAST_TRY(Value key, comparison_key(call, pair.sequence()->items[by_value ? 1 : 0], nullptr, call.flag(0)));
    items.push_back({std::move(key), std::move(pair)});
  }
  BALLAST_CHECK(sort_by_key(call.meter, items, call.flag(2)));
  return make_sequence(call.meter, items_of(std::move(items)));
}

// ---------------------------------------------------------------- map and select

// Whatever counts as false has no items here, none too.
Result<std::vector<Value>> items_if_any(Call& call) {
  return truth(call.self) ? iterate(call.meter, call.self) : std::vector<Value>();
}

Result<Value> map_attribute(Call& call, const Value& attribute, const Value* standard) {
  BALLAST_TRY(std::vector<Value> items, items_if_any(call));
  for (Value& item : items) {
    BALLAST_CHECK(assign(item, value_at_path(call, item, attribute)));
    if (item.is_undefined() && standard != nullptr) item = *standard;
  }
  return make_generator(call.meter, std::move(items));
}

Result<Value> filter_map(Call& call) {
  Arguments& arguments = call.arguments;
  if (arguments.positional.empty()) {
    const Value* attribute = nullptr;
    const Value* standard = nullptr;
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") attribute = &value;
      else if (name == "default") standard = &value;
      else return type_error(fmt::format("Unexpected keyword argument '{}'", name));
    }
    if (attribute == nullptr) return type_error("map requires a filter argument");
    return map_attribute(call, *attribute, standard);
  }
  const Text* name = arguments.positional[0].text();
  if (name == nullptr) return type_error("map requires the name of a filter");
  BALLAST_TRY(std::vector<Value> items, items_if_any(call));
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (Value& item : items) {
    BALLAST_CHECK(assign(item, call.renderer.apply_filter(name->bytes(), item, rest)));
  }
  return make_generator(call.meter, std::move(items));
}

// select, reject, selectattr and rejectattr.
template <bool kWanted, bool kByAttribute>
Result<Value> filter_select(Call& call) {
  Arguments rest = call.arguments;
  Value attribute;
  const auto take_first = [&rest] {
    Value first = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return first;
  };
  if (kByAttribute) {
    if (rest.positional.empty()) return type_error("Missing parameter for attribute name");
    attribute = take_first();
  }
  Value test;
  if (!rest.positional.empty()) test = take_first();
  if (!test.is_none() && test.text() == nullptr) return type_error("the name of a test must be a string");
  BALLAST_TRY(const std::vector<Value> items, items_if_any(call));
  std::vector<Value> chosen;
  for (const Value& item : items) {
    Value value = item;
    if (kByAttribute) BALLAST_CHECK(assign(value, value_at_path(call, item, attribute)));
    bool holds = truth(value);
    if (!test.is_none()) BALLAST_CHECK(assign(holds, call.renderer.apply_test(test.text()->bytes(), value, rest)));
    if (holds == kWanted) chosen.push_back(item);
  }
  return make_generator(call.meter, std::move(chosen));
}

constexpr Builtin kListFilters[] = {
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"reverse", "", 0, filter_reverse},
    {"join", "d attribute", 0, filter_join},
    {"sum", "attribute start", 0, filter_sum},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"min", "case_sensitive attribute", 0, filter_extreme<false>},
    {"max", "case_sensitive attribute", 0, filter_extreme<true>},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"items", "", 0, filter_items},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"map", "*", 0, filter_map},
    {"select", "*", 0, filter_select<true, false>},
    {"reject", "*", 0, filter_select<false, false>},
    {"selectattr", "*", 0, filter_select<true, true>},
    {"rejectattr", "*", 0, filter_select<false, true>},
};

}  // namespace

std::span<const Builtin> list_filters() { return kListFilters; }

}  // namespace ballast::jinja
