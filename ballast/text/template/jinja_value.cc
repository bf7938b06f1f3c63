#include "ballast/text/template/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_builtins.h"

namespace ballast::jinja {

namespace {

// Values are compared, printed and destroyed recursively.
constexpr uint32_t kMostValueDepth = 300;
constexpr uint64_t kCellBytes = 64;  // of any value on the heap, about

uint32_t depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Mapping* mapping = value.mapping()) return mapping->depth;
  if (const Callable* callable = value.callable()) return depth_of(callable->self) + 1;
  if (const LoopState* loop = value.loop()) return loop->depth;
  return 0;
}

Status check_depth(uint32_t depth) {
  if (depth <= kMostValueDepth) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("a value nested more than {} deep", kMostValueDepth));
}

template <typename T>
T* shared_or_null(const Value::Variant& variant) {
  const auto* found = std::get_if<std::shared_ptr<T>>(&variant);
  return found == nullptr ? nullptr : found->get();
}

// Hashes of Python: 1, 1.0 and true are one key. Only texts are looked up in long mappings.
struct KeyOrder {
  const std::vector<std::pair<Value, Value>>* entries;
  bool operator()(size_t a, size_t b) const {
    return (*entries)[a].first.text()->bytes() < (*entries)[b].first.text()->bytes();
  }
};

}  // namespace

// ---------------------------------------------------------------- Meter

Status Meter::step(uint64_t count) {
  steps_ += count;
  if (steps_ <= most_steps_) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("stopped after {} steps, the limit: a loop that does not end?", most_steps_));
}

Status Meter::check_room(uint64_t bytes) const {
  if (bytes <= most_bytes_ && bytes_ <= most_bytes_ - bytes) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the values take more than {} bytes, the limit", most_bytes_));
}

// ---------------------------------------------------------------- Value

const Text* Value::text() const {
  const auto* cell = shared_or_null<const TextCell>(v_);
  return cell == nullptr ? nullptr : &cell->text;
}
bool Value::is_markup() const {
  const auto* cell = shared_or_null<const TextCell>(v_);
  return cell != nullptr && cell->markup;
}
const Sequence* Value::sequence() const { return shared_or_null<const Sequence>(v_); }
const Mapping* Value::mapping() const { return shared_or_null<const Mapping>(v_); }
const Callable* Value::callable() const { return shared_or_null<const Callable>(v_); }

Namespace* Value::name_space() const {
  const auto* found = std::get_if<Namespace*>(&v_);
  return found == nullptr ? nullptr : *found;
}

const LoopState* Value::loop() const { return shared_or_null<const LoopState>(v_); }

const std::string* Value::why_undefined() const {
  const auto* found = std::get_if<Undefined>(&v_);
  return found == nullptr ? nullptr : found->why.get();
}

int64_t Value::as_int() const {
  if (const auto* number = std::get_if<int64_t>(&v_)) return *number;
  if (const auto* flag = std::get_if<bool>(&v_)) return *flag ? 1 : 0;
  return 0;
}

double Value::as_double() const {
  if (const auto* number = std::get_if<double>(&v_)) return *number;
  return static_cast<double>(as_int());
}

Result<const Value*> Mapping::find(Meter& meter, std::string_view key) const {
  BALLAST_CHECK(meter.step(entries.size() / 64));
  for (const auto& [name, value] : entries) {
    const Text* text = name.text();
    if (text == nullptr || text->size() != key.size()) continue;
    BALLAST_CHECK(meter.step(key.size() / 256));
    if (text->bytes() == key) return &value;
  }
  return nullptr;
}

Result<const Value*> Namespace::find(Meter& meter, std::string_view name) const {
  BALLAST_CHECK(meter.step(fields.size() / 64));
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found == fields.end() ? nullptr : &found->second;
}

// ---------------------------------------------------------------- making values

Value make_undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

Result<Value> make_text(Meter& meter, Text text, bool markup) {
  const uint64_t bytes = kCellBytes + text.size() + text.message_runs().size() * sizeof(Text::Run);
  BALLAST_CHECK(meter.step(text.size() / 256));
  BALLAST_CHECK(meter.check_room(bytes));
  return Value(std::shared_ptr<const TextCell>(new TextCell{std::move(text), markup, Held(meter, bytes)}));
}

Result<Value> make_text(Meter& meter, std::string_view text) { return make_text(meter, Text(std::string(text))); }

namespace {

struct ItemsCost {
  uint32_t depth = 1;
  uint64_t bytes = kCellBytes;
};

Result<ItemsCost> cost_of(Meter& meter, const std::vector<Value>& items) {
  ItemsCost cost;
  for (const Value& item : items) cost.depth = std::max(cost.depth, depth_of(item) + 1);
  BALLAST_CHECK(check_depth(cost.depth));
  cost.bytes += items.size() * sizeof(Value);
  BALLAST_CHECK(meter.step(items.size() / 16));
  BALLAST_CHECK(meter.check_room(cost.bytes));
  return cost;
}

}  // namespace

Result<Value> make_sequence(Meter& meter, std::vector<Value> items, Sequence::Kind kind) {
  BALLAST_TRY(const ItemsCost cost, cost_of(meter, items));
  return Value(
      std::shared_ptr<const Sequence>(new Sequence{std::move(items), kind, cost.depth, Held(meter, cost.bytes)}));
}

Result<std::shared_ptr<LoopState>> make_loop(Meter& meter, std::vector<Value> items) {
  BALLAST_TRY(const ItemsCost cost, cost_of(meter, items));
  return std::shared_ptr<LoopState>(new LoopState{std::move(items), cost.depth, Held(meter, cost.bytes)});
}

namespace {

// Equal keys become one; long mappings from files are all texts, which can be sorted.
Status merge_equal_keys(Meter& meter, std::vector<std::pair<Value, Value>>& entries) {
  std::vector<size_t> texts;
  std::vector<std::pair<Value, Value>> kept;
  std::vector<bool> dropped(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const Text* text = entries[i].first.text();
    if (text == nullptr) continue;
    BALLAST_CHECK(meter.step(1 + text->size() / 16));  // sorting compares each with many
    texts.push_back(i);
  }
  std::ranges::stable_sort(texts, KeyOrder{&entries});
  for (size_t i = 1; i < texts.size(); ++i) {
    if (entries[texts[i]].first.text()->bytes() != entries[texts[i - 1]].first.text()->bytes()) continue;
    // The value moves to the place of the first, which is always the one before.
    entries[texts[i - 1]].second = entries[texts[i]].second;
    dropped[texts[i]] = true;
    texts[i] = texts[i - 1];
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].first.text() != nullptr) continue;
    for (size_t j = 0; j < i && !dropped[i]; ++j) {
      BALLAST_TRY(const bool same, equal(meter, entries[i].first, entries[j].first));
      if (!same || dropped[j]) continue;
      entries[j].second = entries[i].second;
      dropped[i] = true;
    }
  }
  if (std::ranges::find(dropped, true) == dropped.end()) return {};
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!dropped[i]) kept.push_back(std::move(entries[i]));
  }
  entries = std::move(kept);
  return {};
}

}  // namespace

Result<Value> make_mapping(Meter& meter, std::vector<std::pair<Value, Value>> entries) {
  BALLAST_CHECK(merge_equal_keys(meter, entries));
  uint32_t depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  BALLAST_CHECK(check_depth(++depth));
  const uint64_t bytes = kCellBytes + entries.size() * sizeof(entries[0]);
  BALLAST_CHECK(meter.step(entries.size() / 16));
  BALLAST_CHECK(meter.check_room(bytes));
  return Value(std::shared_ptr<const Mapping>(new Mapping{std::move(entries), depth, Held(meter, bytes)}));
}

// ---------------------------------------------------------------- asking values

bool truth(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_float()) return value.as_double() != 0;
  if (value.is_number()) return value.as_int() != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const Mapping* mapping = value.mapping()) return !mapping->entries.empty();
  const Sequence* sequence = value.sequence();
  // Python cannot know whether a generator will give anything.
  return sequence == nullptr || sequence->kind == Sequence::Kind::kGenerator || !sequence->items.empty();
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"NoneType", "Undefined", "bool",     "int",       "float",      "str",
                                                "list",     "dict",      "function", "Namespace", "LoopContext"};
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->is_tuple()) return "tuple";
    if (sequence->kind == Sequence::Kind::kGenerator) return "generator";
  }
  return kNames[value.variant().index()];
}

Error type_error(std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); }

Error undefined_error(const Value& value) {
  const std::string* why = value.why_undefined();
  return type_error(why != nullptr ? *why : fmt::format("unsupported use of a value of type '{}'", type_name(value)));
}

namespace {

Result<bool> equal_sequences(Meter& meter, const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == Sequence::Kind::kGenerator || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    BALLAST_TRY(const bool same, equal(meter, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_mappings(Meter& meter, const Mapping& a, const Mapping& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    bool found = false;
    for (const auto& [other_key, other] : b.entries) {
      BALLAST_TRY(const bool same_key, equal(meter, key, other_key));
      if (!same_key) continue;
      BALLAST_TRY(found, equal(meter, value, other));
      break;
    }
    if (!found) return false;
  }
  return true;
}

Result<bool> less_sequences(Meter& meter, const Sequence& a, const Sequence& b) {
  const size_t shared = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < shared; ++i) {
    BALLAST_TRY(const bool same, equal(meter, a.items[i], b.items[i]));
    if (!same) return less(meter, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

}  // namespace

Result<bool> equal(Meter& meter, const Value& a, const Value& b) {
  BALLAST_CHECK(meter.step());
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? a.as_double() == b.as_double() : a.as_int() == b.as_int();
  }
  if (a.variant().index() != b.variant().index()) return false;
  if (const Text* text = a.text()) {
    BALLAST_CHECK(meter.step(text->size() / 256));
    return text->bytes() == b.text()->bytes();
  }
  if (const Sequence* sequence = a.sequence()) return equal_sequences(meter, *sequence, *b.sequence());
  if (const Mapping* mapping = a.mapping()) return equal_mappings(meter, *mapping, *b.mapping());
  if (const Callable* callable = a.callable()) return callable == b.callable();
  if (const Namespace* fields = a.name_space()) return fields == b.name_space();
  if (const LoopState* loop = a.loop()) return loop == b.loop();
  return true;  // none, or undefined
}

Result<bool> less(Meter& meter, const Value& a, const Value& b) {
  BALLAST_CHECK(meter.step());
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? a.as_double() < b.as_double() : a.as_int() < b.as_int();
  }
  // The order of UTF-8 is that of code points.
  if (a.text() != nullptr && b.text() != nullptr) {
    BALLAST_CHECK(meter.step(std::min(a.text()->size(), b.text()->size()) / 256));
    return a.text()->bytes() < b.text()->bytes();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr && a.sequence()->kind == b.sequence()->kind) {
    return less_sequences(meter, *a.sequence(), *b.sequence());
  }
  return type_error(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b)));
}

namespace {

Result<std::vector<Value>> characters_of(Meter& meter, const Text& text) {
  std::vector<Value> items;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at + std::max<size_t>(1, utf8_sequence_length(text.bytes(), at));
    BALLAST_CHECK(meter.step());
    BALLAST_TRY(Value item, make_text(meter, text.slice(at, end)));
    items.push_back(std::move(item));
    at = end;
  }
  return items;
}

}  // namespace

Result<std::vector<Value>> iterate(Meter& meter, const Value& value) {
  if (value.is_undefined()) return std::vector<Value>();
  if (const Text* text = value.text()) return characters_of(meter, *text);
  if (const Sequence* sequence = value.sequence()) {
    BALLAST_CHECK(meter.check_room(sequence->items.size() * sizeof(Value)));
    return sequence->items;
  }
  if (const Mapping* mapping = value.mapping()) {
    std::vector<Value> keys;
    for (const auto& [key, unused] : mapping->entries) keys.push_back(key);
    return keys;
  }
  return type_error(fmt::format("'{}' object is not iterable", type_name(value)));
}

size_t count_characters(std::string_view text) {
  // Bytes that continue a sequence are not counted; texts are valid UTF-8.
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Result<int64_t> length_of(const Value& value) {
  if (value.is_undefined()) return int64_t{0};
  if (const Text* text = value.text()) return static_cast<int64_t>(count_characters(text->bytes()));
  if (const Mapping* mapping = value.mapping()) return static_cast<int64_t>(mapping->entries.size());
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == Sequence::Kind::kGenerator) {
    return type_error(fmt::format("object of type '{}' has no len()", type_name(value)));
  }
  return static_cast<int64_t>(sequence->items.size());
}

}  // namespace ballast::jinja
