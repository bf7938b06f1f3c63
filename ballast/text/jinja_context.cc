#include "ballast/text/jinja_context.h"

#include <algorithm>
#include <array>

#include "ballast/base/json.h"

namespace ballast::jinja {

namespace {

using Entries = std::vector<std::pair<Value, Value>>;

// The reader refuses what is nested more than 256 deep, so recursion is bounded.
class ContextReader {
 public:
  ContextReader(Meter& meter, std::string_view json)
      : meter_(meter), json_(json, "chat template: context", 0, JsonReader::Dialect::kPython) {}

  Result<Value> run() {
    Entries entries;
    BALLAST_CHECK(json_.enter_object());
    std::string key;
    bool found[2] = {};
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(key));
      if (!more) break;
      found[0] = found[0] || key == "tools";
      found[1] = found[1] || key == "documents";
      const bool marked = key == "messages" || key == "tools" || key == "documents";
      BALLAST_TRY(Value value, key == "messages" ? read_messages() : read(marked));
      BALLAST_CHECK(add(entries, key, std::move(value), false));
    }
    BALLAST_CHECK(json_.finish());
    if (!found[0]) BALLAST_CHECK(add(entries, "tools", None(), false));
    if (!found[1]) BALLAST_CHECK(add(entries, "documents", None(), false));
    return make_mapping(meter_, std::move(entries));
  }

 private:
  Status add(Entries& entries, std::string_view key, Value value, bool marked) {
    BALLAST_TRY(Value name, make_text(meter_, Text(std::string(key), marked)));
    entries.emplace_back(std::move(name), std::move(value));
    return {};
  }

  Result<Value> read(bool marked) {
    BALLAST_TRY(const JsonType type, json_.peek());
    switch (type) {
      case JsonType::kObject: return read_object(marked);
      case JsonType::kArray: return read_array(marked);
      case JsonType::kString: {
        BALLAST_TRY(std::string text, json_.read_string());
        return make_text(meter_, Text(std::move(text), marked));
      }
      case JsonType::kNumber: return read_number();
      case JsonType::kNull: BALLAST_CHECK(json_.read_null()); return Value(None());
      default: break;
    }
    BALLAST_TRY(const bool flag, json_.read_bool());
    return Value(flag);
  }

  Result<Value> read_number() {
    BALLAST_TRY(const std::string_view raw, json_.read_raw());
    JsonReader number(raw, "chat template: context", 0, JsonReader::Dialect::kPython);
    if (raw.find_first_of(".eEnN") == std::string_view::npos) {
      BALLAST_TRY(const int64_t whole, number.read_i64());
      return Value(whole);
    }
    BALLAST_TRY(const double real, number.read_double());
    return Value(real);
  }

  Result<Value> read_array(bool marked) {
    std::vector<Value> items;
    BALLAST_CHECK(json_.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_element());
      if (!more) return make_sequence(meter_, std::move(items));
      BALLAST_TRY(Value item, read(marked));
      items.push_back(std::move(item));
    }
  }

  Result<Value> read_object(bool marked) {
    Entries entries;
    BALLAST_CHECK(json_.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(key));
      if (!more) return make_mapping(meter_, std::move(entries));
      BALLAST_TRY(Value value, read(marked));
      BALLAST_CHECK(add(entries, key, std::move(value), marked));
    }
  }

  Result<Value> read_messages() {
    BALLAST_TRY(const JsonType type, json_.peek());
    if (type != JsonType::kArray) return json_.error_here("messages must be a list");
    std::vector<Value> messages;
    BALLAST_CHECK(json_.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_element());
      if (!more) return make_sequence(meter_, std::move(messages));
      BALLAST_TRY(Value message, read_message());
      messages.push_back(std::move(message));
    }
  }

  // A role is a word of the template's: it may become part of a mark such as <|user|>. What is no word came from
  // whoever wrote the messages.
  Result<Value> read_role() {
    BALLAST_TRY(const JsonType type, json_.peek());
    if (type != JsonType::kString) return read(true);
    BALLAST_TRY(std::string role, json_.read_string());
    const bool is_word = std::ranges::all_of(role, [](unsigned char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    return make_text(meter_, Text(std::move(role), !is_word));
  }

  Result<Value> read_message() {
    BALLAST_TRY(const JsonType type, json_.peek());
    if (type != JsonType::kObject) return read(true);
    Entries entries;
    BALLAST_CHECK(json_.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, json_.next_key(key));
      if (!more) break;
      BALLAST_TRY(Value value, key == "role" ? read_role() : read(true));
      BALLAST_CHECK(add(entries, key, std::move(value), false));
    }
    BALLAST_CHECK(add_reasoning_names(entries));
    return make_mapping(meter_, std::move(entries));
  }

  // As transformers does: `thinking` first unless the message has it, and `reasoning_content` with the value found.
  Status add_reasoning_names(Entries& entries) {
    static constexpr std::array<std::string_view, 3> kNames = {"reasoning_content", "thinking", "reasoning"};
    for (const std::string_view name : kNames) {
      const auto entry =
          std::ranges::find_if(entries, [name](const auto& e) { return e.first.text()->bytes() == name; });
      if (entry == entries.end() || entry->second.is_none()) continue;
      const Value reasoning = entry->second;
      Entries thinking;
      BALLAST_CHECK(add(thinking, "thinking", reasoning, false));
      entries.insert(entries.begin(), thinking[0]);
      return add(entries, "reasoning_content", reasoning, false);
    }
    return {};
  }

  Meter& meter_;
  JsonReader json_;
};

}  // namespace

Result<Value> read_context(Meter& meter, std::string_view json) { return ContextReader(meter, json).run(); }

}  // namespace ballast::jinja
