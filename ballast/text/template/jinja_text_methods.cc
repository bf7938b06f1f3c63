// Methods of strings.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/base/utf8.h"
#include "ballast/text/char_class.h"
#include "ballast/text/template/jinja_format.h"
#include "ballast/text/template/jinja_print.h"
#include "ballast/text/template/jinja_tables.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

template <Text (*kChange)(const Text&)>
Result<Value> method_changed(Call& call) {
  return make_text(call.meter, kChange(call.self_text()));
}
Text method_upper(const Text& text) { return cased(text, CaseChange::kUpper); }
Text method_lower(const Text& text) { return cased(text, CaseChange::kLower); }

// Null also for none, which Python takes for "not given" here.
Result<const Text*> optional_text(Call& call, size_t index) {
  if (call.get(index) != nullptr && call.get(index)->is_none()) return nullptr;
  return call.text(index);
}

template <StripSide kSide>
Result<Value> method_strip(Call& call) {
  BALLAST_TRY(const Text* chars, optional_text(call, 0));
  BALLAST_TRY(Text rest, stripped(call.meter, call.self_text(), kSide, chars));
  return make_text(call.meter, std::move(rest));
}

Result<Value> method_split(Call& call) {
  BALLAST_TRY(const Text* separator, optional_text(call, 0));
  BALLAST_TRY(const int64_t most, call.integer(1, -1));
  BALLAST_TRY(std::vector<Value> parts, split_text(call.meter, call.self_text(), separator, most));
  return make_sequence(call.meter, std::move(parts));
}

Result<Value> method_rsplit(Call& call) {
  BALLAST_TRY(const Text* separator, optional_text(call, 0));
  BALLAST_TRY(const int64_t most, call.integer(1, -1));
  BALLAST_TRY(std::vector<Value> parts, split_text_from_right(call.meter, call.self_text(), separator, most));
  return make_sequence(call.meter, std::move(parts));
}

Result<Value> method_splitlines(Call& call) {
  BALLAST_TRY(std::vector<Text> lines, lines_of(call.meter, call.self_text(), call.flag(0)));
  std::vector<Value> values;
  for (Text& line : lines) {
    BALLAST_TRY(Value value, make_text(call.meter, std::move(line)));
    values.push_back(std::move(value));
  }
  return make_sequence(call.meter, std::move(values));
}

// One text, or a tuple of which any will do.
template <bool kAtStart>
Result<Value> method_affix(Call& call) {
  const std::string_view text = call.self_text().bytes();
  const auto has = [&](const Value& affix) -> Result<bool> {
    if (affix.is_undefined()) return undefined_error(affix);
    if (affix.text() == nullptr) return type_error("startswith and endswith take a string or a tuple of strings");
    const std::string& wanted = affix.text()->bytes();
    BALLAST_CHECK(call.meter.step(1 + wanted.size() / 256));
    return kAtStart ? text.starts_with(wanted) : text.ends_with(wanted);
  };
  const Sequence* choices = call.get(0)->sequence();
  if (choices == nullptr) {
    BALLAST_TRY(const bool found, has(*call.get(0)));
    return Value(found);
  }
  for (const Value& choice : choices->items) {
    BALLAST_TRY(const bool found, has(choice));
    if (found) return Value(true);
  }
  return Value(false);
}

Result<Value> method_removeprefix(Call& call) {
  BALLAST_TRY(const Text* prefix, call.text(0));
  const Text& text = call.self_text();
  if (!text.bytes().starts_with(prefix->bytes())) return call.self;
  return make_text(call.meter, text.slice(prefix->size(), text.size()));
}

Result<Value> method_removesuffix(Call& call) {
  BALLAST_TRY(const Text* suffix, call.text(0));
  const Text& text = call.self_text();
  if (!text.bytes().ends_with(suffix->bytes())) return call.self;
  return make_text(call.meter, text.slice(0, text.size() - suffix->size()));
}

Result<Value> method_replace(Call& call) {
  BALLAST_TRY(const Text* old, call.text(0));
  BALLAST_TRY(const Text* replacement, call.text(1));
  BALLAST_TRY(const int64_t most, call.integer(2, -1));
  BALLAST_TRY(Text out, replaced(call.meter, call.self_text(), *old, *replacement, most));
  return make_text(call.meter, std::move(out));
}

Result<Value> method_join(Call& call) {
  BALLAST_TRY(const std::vector<Value> items, iterate(call.meter, *call.get(0)));
  for (const Value& item : items) {
    if (item.text() == nullptr) return type_error(fmt::format("expected str instance, {} found", type_name(item)));
  }
  BALLAST_TRY(Text text, joined_values(call.meter, items, call.self_text()));
  return make_text(call.meter, std::move(text));
}

Result<int64_t> position_of(Call& call, bool last) {
  BALLAST_TRY(const Text* needle, call.text(0));
  const std::string& text = call.self_text().bytes();
  size_t found = find_text(text, needle->bytes());
  for (size_t next = found; last && next != std::string::npos && next < text.size();) {
    BALLAST_CHECK(call.meter.step(1 + needle->size() / 256));
    next = find_text(text, needle->bytes(), next + 1);
    if (next != std::string::npos) found = next;
  }
  if (found == std::string::npos) return int64_t{-1};
  return static_cast<int64_t>(count_characters(std::string_view(text).substr(0, found)));
}

template <bool kLast>
Result<Value> method_find(Call& call) {
  BALLAST_TRY(const int64_t position, position_of(call, kLast));
  return Value(position);
}

Result<Value> method_index(Call& call) {
  BALLAST_TRY(const int64_t position, position_of(call, false));
  if (position < 0) return type_error("substring not found");
  return Value(position);
}

Result<Value> method_count(Call& call) {
  BALLAST_TRY(const Text* needle, call.text(0));
  const std::string& text = call.self_text().bytes();
  if (needle->empty()) return Value(static_cast<int64_t>(count_characters(text)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = find_text(text, needle->bytes(), at)) != std::string::npos; at += needle->size()) ++count;
  return Value(count);
}

// isdigit, isalpha and so on: all characters, and at least one.
template <bool (*kIs)(CharClass)>
Result<Value> method_all_are(Call& call) {
  const std::string& text = call.self_text().bytes();
  for (size_t at = 0; at < text.size();) {
    const ClassifiedChar c = classify_char(text, at);
    if (!kIs(c.kind)) return Value(false);
    at += c.length;
  }
  return Value(!text.empty());
}
bool class_is_number(CharClass c) { return c == CharClass::kNumber; }
bool class_is_letter(CharClass c) { return c == CharClass::kLetter; }
bool class_is_word(CharClass c) { return c == CharClass::kNumber || c == CharClass::kLetter; }
bool class_is_space(CharClass c) { return c == CharClass::kSpace; }

template <TextPlace kSide>
Result<Value> method_just(Call& call) {
  BALLAST_TRY(const int64_t width, call.integer(0, 0));
  BALLAST_TRY(const Text* fill, call.text(1));
  if (fill != nullptr && fill->size() != 1) return type_error("The fill character must be exactly one of ASCII");
  const char character = fill == nullptr ? ' ' : fill->bytes()[0];
  BALLAST_TRY(Text text, padded(call.meter, call.self_text(), width, kSide, character));
  return make_text(call.meter, std::move(text));
}

Result<Value> method_partition(Call& call) {
  BALLAST_TRY(const Text* separator, call.text(0));
  if (separator->empty()) return type_error("empty separator");
  const Text& text = call.self_text();
  const size_t begin = std::min(find_text(text.bytes(), separator->bytes()), text.size());
  const size_t end = std::min(begin + separator->size(), text.size());
  std::vector<Value> parts(3);
  BALLAST_CHECK(assign(parts[0], make_text(call.meter, text.slice(0, begin))));
  BALLAST_CHECK(assign(parts[1], make_text(call.meter, text.slice(begin, end))));
  BALLAST_CHECK(assign(parts[2], make_text(call.meter, text.slice(end, text.size()))));
  return make_sequence(call.meter, std::move(parts), Sequence::Kind::kTuple);
}

template <CaseChange kCase>
Result<Value> method_is_case(Call& call) {
  const std::string& text = call.self_text().bytes();
  const CaseChange other = kCase == CaseChange::kUpper ? CaseChange::kLower : CaseChange::kUpper;
  return Value(cased(call.self_text(), kCase).bytes() == text && cased(call.self_text(), other).bytes() != text);
}

Result<Value> method_zfill(Call& call) {
  BALLAST_TRY(const int64_t width, call.integer(0, 0));
  const Text& text = call.self_text();
  const bool has_sign = text.bytes().starts_with('-') || text.bytes().starts_with('+');
  const int64_t wanted = std::max<int64_t>(width, 1) - (has_sign ? 1 : 0);
  BALLAST_TRY(const Text digits,
              padded(call.meter, text.slice(has_sign ? 1 : 0, text.size()), wanted, TextPlace::kRight, '0'));
  Text out = text.slice(0, has_sign ? 1 : 0);
  out.append(digits);
  return make_text(call.meter, std::move(out));
}

// ---------------------------------------------------------------- format

// "{}", "{0}" and "{name}" with an optional !r or !s and a format behind a colon; fields of fields no template needs.
class Formatter {
 public:
  explicit Formatter(Call& call) : call_(call), text_(call.self_text()) {}

  Result<Value> run() {
    const std::string& bytes = text_.bytes();
    for (size_t at = 0; at < bytes.size();) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out_.append(text_, at, brace);
      at = brace;
      if (at == bytes.size()) break;
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out_.append(text_, at, at + 1);
        at += 2;
        continue;
      }
      const size_t end = bytes.find('}', at);
      if (bytes[at] == '}' || end == std::string::npos)
        return type_error("Single '}' or '{' encountered in format string");
      BALLAST_CHECK(field(std::string_view(bytes).substr(at + 1, end - at - 1)));
      at = end + 1;
    }
    return make_text(call_.meter, std::move(out_));
  }

 private:
  Status field(std::string_view name) {
    bool repr = false;
    const size_t colon = std::min(name.find(':'), name.size());
    const std::string_view spec = name.substr(std::min(colon + 1, name.size()));
    name = name.substr(0, colon);
    if (name.ends_with("!r") || name.ends_with("!s")) {
      repr = name.ends_with('r');
      name.remove_suffix(2);
    }
    if (name.find_first_of(".[!") != std::string_view::npos) {
      return make_error(ErrorCode::kUnsupported, fmt::format("the field {{{}}} of format() is not supported", name));
    }
    BALLAST_TRY(const Value value, argument(name));
    if (!repr) return append_formatted(call_.meter, out_, value, spec);
    Text shown;
    BALLAST_CHECK(append_repr(call_.meter, shown, value));
    BALLAST_TRY(const Value text, make_text(call_.meter, std::move(shown)));
    return append_formatted(call_.meter, out_, text, spec);
  }
  Result<Value> argument(std::string_view name) {
    size_t index = next_;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = !name.empty() && failure == std::errc() && end == name.data() + name.size();
    if (name.empty()) ++next_;
    if (name.empty() || number) {
      if (index < call_.arguments.positional.size()) return call_.arguments.positional[index];
      return type_error("format(): there are more fields than arguments");
    }
    for (const auto& [key, value] : call_.arguments.named) {
      if (key == name) return value;
    }
    return type_error(fmt::format("format(): no argument is called '{}'", name));
  }

  Call& call_;
  const Text& text_;
  size_t next_ = 0;
  Text out_;
};

Result<Value> method_format(Call& call) { return Formatter(call).run(); }

constexpr Builtin kTextMethods[] = {
    {"upper", "", 0, method_changed<method_upper>},
    {"lower", "", 0, method_changed<method_lower>},
    {"title", "", 0, method_changed<titled>},
    {"capitalize", "", 0, method_changed<capitalized>},
    {"strip", "chars", 0, method_strip<StripSide::kBoth>},
    {"lstrip", "chars", 0, method_strip<StripSide::kLeft>},
    {"rstrip", "chars", 0, method_strip<StripSide::kRight>},
    {"split", "sep maxsplit", 0, method_split},
    {"rsplit", "sep maxsplit", 0, method_rsplit},
    {"splitlines", "keepends", 0, method_splitlines},
    {"startswith", "prefix", 1, method_affix<true>},
    {"endswith", "suffix", 1, method_affix<false>},
    {"removeprefix", "prefix", 1, method_removeprefix},
    {"removesuffix", "suffix", 1, method_removesuffix},
    {"replace", "old new count", 2, method_replace},
    {"join", "iterable", 1, method_join},
    {"find", "sub", 1, method_find<false>},
    {"rfind", "sub", 1, method_find<true>},
    {"index", "sub", 1, method_index},
    {"count", "sub", 1, method_count},
    {"isdigit", "", 0, method_all_are<class_is_number>},
    {"isnumeric", "", 0, method_all_are<class_is_number>},
    {"isalpha", "", 0, method_all_are<class_is_letter>},
    {"isalnum", "", 0, method_all_are<class_is_word>},
    {"isspace", "", 0, method_all_are<class_is_space>},
    {"isupper", "", 0, method_is_case<CaseChange::kUpper>},
    {"islower", "", 0, method_is_case<CaseChange::kLower>},
    {"partition", "sep", 1, method_partition},
    {"ljust", "width fillchar", 1, method_just<TextPlace::kLeft>},
    {"center", "width fillchar", 1, method_just<TextPlace::kMiddle>},
    {"rjust", "width fillchar", 1, method_just<TextPlace::kRight>},
    {"zfill", "width", 1, method_zfill},
    {"format", "*", 0, method_format},
};

}  // namespace

std::span<const Builtin> text_methods() { return kTextMethods; }

}  // namespace ballast::jinja
