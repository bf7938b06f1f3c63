#include "ballast/training/config/config_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/io/file.h"

namespace ballast {

namespace {

constexpr uint64_t kMostJsonBytes = uint64_t{1} << 20;
constexpr unsigned kMostJsonDepth = 64;

// Turns positions into lines, for positions that only grow.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}
  uint64_t at(uint64_t position) {
    position = std::min<uint64_t>(position, text_.size());
    line_ += static_cast<uint64_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(position_),
                                              text_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    position_ = position;
    return line_;
  }

 private:
  std::string_view text_;
  uint64_t position_ = 0;
  uint64_t line_ = 1;
};

class JsonTree {
 public:
  JsonTree(std::string_view text, const std::string& where) : reader_(text, where), lines_(text) {}

  Result<ConfigValue> read() {
    BALLAST_TRY(ConfigValue value, read_value(0));
    BALLAST_CHECK(reader_.finish());
    return value;
  }

 private:
  Result<ConfigValue> read_value(unsigned depth) {
    if (depth > kMostJsonDepth) return reader_.error_here(fmt::format("nested deeper than {}", kMostJsonDepth));
    BALLAST_TRY(const JsonType type, reader_.peek());
    ConfigValue value;
    value.line = lines_.at(reader_.offset());
    switch (type) {
      case JsonType::kObject: BALLAST_CHECK(read_table(value, depth)); break;
      case JsonType::kArray: BALLAST_CHECK(read_list(value, depth)); break;
      case JsonType::kNumber: BALLAST_CHECK(read_number(value)); break;
      case JsonType::kString: {
        value.kind = ConfigValue::Kind::kText;
        BALLAST_TRY(value.text, reader_.read_string());
        break;
      }
      case JsonType::kNull: BALLAST_CHECK(reader_.read_null()); break;
      case JsonType::kTrue:
      case JsonType::kFalse: {
        value.kind = ConfigValue::Kind::kBool;
        BALLAST_TRY(value.truth, reader_.read_bool());
        break;
      }
    }
    return value;
  }

  Status read_table(ConfigValue& table, unsigned depth) {
    table.kind = ConfigValue::Kind::kTable;
    BALLAST_CHECK(reader_.enter_object());
    for (;;) {
      std::string name;
      BALLAST_TRY(const bool more, reader_.next_key(name));
      if (!more) return {};
      if (table.find(name) != nullptr) return reader_.error_here(fmt::format("\"{}\" is there twice", name));
      BALLAST_TRY(ConfigValue value, read_value(depth + 1));
      table.members.push_back({std::move(name), std::move(value)});
    }
  }

  Status read_list(ConfigValue& list, unsigned depth) {
    list.kind = ConfigValue::Kind::kList;
    BALLAST_CHECK(reader_.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader_.next_element());
      if (!more) return {};
      BALLAST_TRY(ConfigValue item, read_value(depth + 1));
      list.items.push_back(std::move(item));
    }
  }

  Status read_number(ConfigValue& value) {
    BALLAST_TRY(const std::string_view raw, reader_.read_raw());
    JsonReader number(raw, "number");
    if (raw.find_first_of(".eE") == std::string_view::npos) {
      if (const auto whole = number.read_i64(); whole) {
        value.kind = ConfigValue::Kind::kWhole;
        value.whole = *whole;
        return {};
      }
    }
    value.kind = ConfigValue::Kind::kReal;
    BALLAST_TRY(value.real, JsonReader(raw, "number").read_double());
    return {};
  }

  JsonReader reader_;
  LineCounter lines_;
};

Status check_text_length(std::string_view text, const std::string& where) {
  if (text.size() <= kMostJsonBytes) return {};
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: {} bytes are too many for a configuration (at most {})",
                                                         where, text.size(), kMostJsonBytes));
}

}  // namespace

const ConfigValue* ConfigValue::find(std::string_view name) const {
  for (const ConfigMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

ConfigValue* ConfigValue::find(std::string_view name) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(name));
}

std::string ConfigValue::describe() const {
  switch (kind) {
    case Kind::kNull: return "null";
    case Kind::kBool: return truth ? "true" : "false";
    case Kind::kWhole: return fmt::format("{}", whole);
    case Kind::kReal: return fmt::format("{}", real);
    case Kind::kText: return fmt::format("the text \"{}\"", text);
    case Kind::kList: return "a list";
    case Kind::kTable: return "a table";
  }
  return "";
}

Result<ConfigValue> parse_config_json(std::string_view text, const std::string& where) {
  BALLAST_CHECK(check_text_length(text, where));
  auto tree = JsonTree(text, where).read();
  if (!tree) tree.error().code = ErrorCode::kInvalidArgument;
  return tree;
}

Result<ConfigValue> read_config_file(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, std::min(source->size(), kMostJsonBytes + 1)));
  const std::string_view text = as_text(bytes);
  BALLAST_CHECK(check_text_length(text, path));
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool braces = first != std::string_view::npos && text[first] == '{';
  const bool json = path.ends_with(".json") || (!path.ends_with(".toml") && braces);
  return json ? parse_config_json(text, path) : parse_config_toml(text, path);
}

Status set_config_value(ConfigValue& root, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  const std::string_view path = assignment.substr(0, equals);
  if (equals == std::string_view::npos || path.find('.') == std::string_view::npos) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("\"{}\" sets nothing: write SECTION.KEY=VALUE, as in train.steps=100", assignment));
  }
  const std::string_view raw = assignment.substr(equals + 1);
  ConfigValue* table = &root;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', begin)) {
    const std::string_view name = path.substr(begin, dot - begin);
    if (table->find(name) == nullptr) {
      ConfigValue fresh;
      fresh.kind = ConfigValue::Kind::kTable;
      fresh.from_command = true;
      table->members.push_back({std::string(name), std::move(fresh)});
    }
    table = table->find(name);
    if (table->kind != ConfigValue::Kind::kTable) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\": {} is no table", assignment, name));
    }
    begin = dot + 1;
  }
  auto parsed = parse_config_json(raw, std::string(path));
  ConfigValue value;
  if (parsed) {
    value = std::move(*parsed);
  } else {
    value.kind = ConfigValue::Kind::kText;
    value.text = raw;
  }
  value.line = 0;
  value.from_command = true;
  const std::string_view key = path.substr(begin);
  if (ConfigValue* there = table->find(key); there != nullptr) *there = std::move(value);
  else table->members.push_back({std::string(key), std::move(value)});
  return {};
}

void append_json(JsonWriter& json, const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::kNull: json.null(); break;
    case ConfigValue::Kind::kBool: json.boolean(value.truth); break;
    case ConfigValue::Kind::kWhole: json.signed_number(value.whole); break;
    case ConfigValue::Kind::kReal: json.real(value.real); break;
    case ConfigValue::Kind::kText: json.string(value.text); break;
    case ConfigValue::Kind::kList:
      json.begin_array();
      for (const ConfigValue& item : value.items) append_json(json, item);
      json.end_array();
      break;
    case ConfigValue::Kind::kTable:
      json.begin_object();
      for (const ConfigMember& member : value.members) {
        json.key(member.name);
        append_json(json, member.value);
      }
      json.end_object();
      break;
  }
}

}  // namespace ballast
