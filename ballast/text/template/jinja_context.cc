#include "ballast/text/template/jinja_context.h"

#include <algorithm>
#include <array>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"

namespace ballast::jinja {

namespace {

using Entries = std::vector<std::pair<Value, Value>>;

Status add_entry(Meter& meter, Entries& entries, std::string_view key, Value value, bool marked) {
  BALLAST_TRY(Value name, make_text(meter, Text(std::string(key), marked)));
  entries.emplace_back(std::move(name), std::move(value));
  return {};
}

// A role is a word of the template's: it may become part of a mark such as <|user|>. What is no word came from whoever
// wrote the messages.
Result<Value> make_role(Meter& meter, std::string role) {
  const bool is_word = std::ranges::all_of(role, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return make_text(meter, Text(std::move(role), !is_word));
}

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

  // Where the text is one message.
  Result<Value> run_message() {
    BALLAST_TRY(Value message, read_message());
    BALLAST_CHECK(json_.finish());
    return message;
  }

 private:
  Status add(Entries& entries, std::string_view key, Value value, bool marked) {
    return add_entry(meter_, entries, key, std::move(value), marked);
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

  Result<Value> read_role() {
    BALLAST_TRY(const JsonType type, json_.peek());
    if (type != JsonType::kString) return read(true);
    BALLAST_TRY(std::string role, json_.read_string());
    return make_role(meter_, std::move(role));
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

// What a program says, where JSON has been checked by its reader.
Status check_utf8(std::string_view text, std::string_view what) {
  if (is_valid_utf8(text)) return {};
  return make_error(ErrorCode::kInvalidArgument, "chat template: " + std::string(what) + " is not UTF-8");
}

Result<Value> make_message(Meter& meter, const ChatMessage& message) {
  if (!message.json.empty()) return ContextReader(meter, message.json).run_message();
  BALLAST_CHECK(check_utf8(message.role, "the role of a message"));
  BALLAST_CHECK(check_utf8(message.content, "a message"));
  Entries entries;
  BALLAST_TRY(Value role, make_role(meter, message.role));
  BALLAST_TRY(Value content, make_text(meter, Text(message.content, true)));
  BALLAST_CHECK(add_entry(meter, entries, "role", std::move(role), false));
  BALLAST_CHECK(add_entry(meter, entries, "content", std::move(content), false));
  return make_mapping(meter, std::move(entries));
}

}  // namespace

Result<Value> make_context(Meter& meter, std::string_view json) { return ContextReader(meter, json).run(); }

Result<Value> make_context(Meter& meter, const ChatContext& chat) {
  Entries entries;
  std::vector<Value> messages;
  for (const ChatMessage* message : chat.messages) {
    BALLAST_TRY(Value value, make_message(meter, *message));
    messages.push_back(std::move(value));
  }
  BALLAST_TRY(Value list, make_sequence(meter, std::move(messages)));
  BALLAST_CHECK(add_entry(meter, entries, "messages", std::move(list), false));
  BALLAST_CHECK(add_entry(meter, entries, "add_generation_prompt", Value(chat.add_generation_prompt), false));
  for (const auto& [name, token] : {std::pair("bos_token", chat.bos_token), std::pair("eos_token", chat.eos_token)}) {
    BALLAST_CHECK(check_utf8(token, name));
    BALLAST_TRY(Value text, make_text(meter, token));
    BALLAST_CHECK(add_entry(meter, entries, name, std::move(text), false));
  }
  for (const std::string_view absent : {"tools", "documents"}) {
    BALLAST_CHECK(add_entry(meter, entries, absent, None(), false));
  }
  return make_mapping(meter, std::move(entries));
}

}  // namespace ballast::jinja
