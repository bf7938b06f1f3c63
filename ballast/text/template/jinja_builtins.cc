#include "ballast/text/template/jinja_builtins.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_tables.h"

namespace ballast::jinja {

namespace {

std::vector<std::string_view> parameter_names(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    names.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

Status bind_arguments(const Builtin& builtin, Arguments& arguments, std::vector<std::optional<Value>>& bound) {
  const auto names = parameter_names(builtin.parameters);
  bound.resize(names.size());
  if (arguments.positional.size() > names.size()) {
    return type_error(fmt::format("{}() takes at most {} argument(s), {} given", builtin.name, names.size(),
                                  arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      return type_error(fmt::format("{}() got an unexpected keyword argument '{}'", builtin.name, name));
    }
    auto& place = bound[static_cast<size_t>(found - names.begin())];
    if (place) return type_error(fmt::format("{}() got multiple values for argument '{}'", builtin.name, name));
    place = std::move(value);
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!bound[i]) return type_error(fmt::format("{}() misses the argument '{}'", builtin.name, names[i]));
  }
  return {};
}

// What a call costs before it does anything: linear in what it is applied to.
uint64_t cost_of_input(const Value& value) {
  if (const Text* text = value.text()) return text->size() / kBytesPerStep;
  if (const Sequence* sequence = value.sequence()) return sequence->items.size() / 4;
  if (const Mapping* mapping = value.mapping()) return mapping->entries.size() / 4;
  return 0;
}

const Builtin* find_row(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

Result<const Text*> Call::text(size_t index) const {
  const Value* value = get(index);
  if (value == nullptr) return nullptr;
  if (value->is_undefined()) return undefined_error(*value);
  if (value->text() == nullptr) return type_error(fmt::format("expected a string, not '{}'", type_name(*value)));
  return value->text();
}

Result<int64_t> Call::integer(size_t index, int64_t standard) const {
  const Value* value = get(index);
  if (value == nullptr || value->is_none()) return standard;
  if (value->is_undefined()) return undefined_error(*value);
  if (!value->is_int() && !value->is_bool()) {
    return type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(*value)));
  }
  return value->as_int();
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find_row(text_filters(), name);
  return found != nullptr ? found : find_row(list_filters(), name);
}
const Builtin* find_test(std::string_view name) { return find_row(tests(), name); }
const Builtin* find_function(std::string_view name) { return find_row(functions(), name); }

MethodLookup find_method(const Value& self, std::string_view name) {
  static constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                                      "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto among = [name](const auto& names) { return std::ranges::find(names, name) != std::end(names); };
  if (self.text() != nullptr) return {find_row(text_methods(), name), false};
  if (self.mapping() != nullptr) return {find_row(mapping_methods(), name), among(kDictChanges)};
  if (const Sequence* sequence = self.sequence()) {
    return {find_row(sequence_methods(), name), sequence->kind == Sequence::Kind::kList && among(kListChanges)};
  }
  if (self.loop() != nullptr) return {find_row(loop_methods(), name), false};
  return {};
}

Result<Value> run_builtin(Renderer& renderer, const Builtin& builtin, const Value& self, Arguments arguments) {
  Call call{.renderer = renderer, .meter = renderer.meter(), .self = self, .bound = {}, .arguments = {}};
  BALLAST_CHECK(call.meter.step(1 + cost_of_input(self) + arguments.positional.size() + arguments.named.size()));
  if (builtin.parameters == "*") call.arguments = std::move(arguments);
  else BALLAST_CHECK(bind_arguments(builtin, arguments, call.bound));
  return builtin.run(call);
}

}  // namespace ballast::jinja
