#include "ballast/serve/forced_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/json.h"

namespace ballast::serve {

namespace {

constexpr uint64_t kMostForcedCalls = 16;

// What holds schemas by names of its own, and what holds values that only look like schemas.
constexpr std::array<std::string_view, 5> kSchemasByName = {"properties", "$defs", "definitions", "patternProperties",
                                                            "dependentSchemas"};
constexpr std::array<std::string_view, 5> kPlainValues = {"const", "enum", "default", "example", "examples"};

template <size_t count>
bool is_among(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Copies a schema whose root moves to `base`.
class SchemaMove {
 public:
  SchemaMove(JsonReader& from, JsonWriter& to, std::string_view base) : from_(from), to_(to), base_(base) {}

  // The reader limits the depth.
  Status copy_root() {
    to_.begin_object();
    BALLAST_CHECK(copy_members(false));
    if (!has_type_) to_.key("type").string("object");
    to_.end_object();
    return from_.finish();
  }

 private:
  Status copy_value(bool holds_names) {
    BALLAST_TRY(const JsonType type, from_.peek());
    if (type == JsonType::kObject) {
      to_.begin_object();
      ++depth_;
      BALLAST_CHECK(copy_members(holds_names));
      --depth_;
      to_.end_object();
      return {};
    }
    if (type == JsonType::kArray) {
      BALLAST_CHECK(from_.enter_array());
      to_.begin_array();
      for (;;) {
        BALLAST_TRY(const bool more, from_.next_element());
        if (!more) break;
        ++depth_;
        BALLAST_CHECK(copy_value(false));
        --depth_;
      }
      to_.end_array();
      return {};
    }
    BALLAST_TRY(const std::string_view raw, from_.read_raw());
    to_.raw(raw);
    return {};
  }

  Status copy_members(bool holds_names) {
    BALLAST_CHECK(from_.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, from_.next_key(key));
      if (!more) return {};
      has_type_ = has_type_ || (depth_ == 0 && key == "type");
      if (depth_ == 0 && key == "$id") {  // references are rewritten, so they do not depend on it
        BALLAST_CHECK(from_.skip_value());
        continue;
      }
      to_.key(key);
      BALLAST_TRY(const JsonType type, from_.peek());
      if (!holds_names && key == "$ref" && type == JsonType::kString) {
        BALLAST_TRY(const std::string reference, from_.read_string());
        to_.string(reference.starts_with('#') ? fmt::format("#{}{}", base_, reference.substr(1)) : reference);
      } else if (!holds_names && is_among(kPlainValues, key)) {
        BALLAST_TRY(const std::string_view raw, from_.read_raw());
        to_.raw(raw);
      } else {
        BALLAST_CHECK(copy_value(!holds_names && is_among(kSchemasByName, key)));
      }
    }
  }

  JsonReader& from_;
  JsonWriter& to_;
  std::string_view base_;
  size_t depth_ = 0;
  bool has_type_ = false;
};

// {"name": "f", "arguments": {}}
Status append_call_schema(JsonWriter& json, const ToolAsk& tool, std::string_view arguments, const std::string& base) {
  BALLAST_TRY(const std::string schema, arguments_schema(tool, fmt::format("{}/properties/{}", base, arguments)));
  json.begin_object().key("type").string("object").key("properties").begin_object();
  json.key("name").begin_object().key("const").string(tool.name).end_object();
  json.key(arguments).raw(schema).end_object();
  json.key("required").begin_array().string("name").string(arguments).end_array();
  json.key("additionalProperties").boolean(false).end_object();
  return {};
}

// Of a call of any of them.
Result<std::string> any_call_schema(const std::vector<ToolAsk>& tools, std::string_view arguments,
                                    const std::string& base) {
  JsonWriter json;
  json.begin_object().key("anyOf").begin_array();
  for (size_t i = 0; i < tools.size(); ++i) {
    BALLAST_CHECK(append_call_schema(json, tools[i], arguments, fmt::format("{}/anyOf/{}", base, i)));
  }
  return json.end_array().end_object().take();
}

Result<std::string> call_list_schema(const std::vector<ToolAsk>& tools, uint64_t most) {
  BALLAST_TRY(const std::string call, any_call_schema(tools, "arguments", "/items"));
  JsonWriter json;
  json.begin_object().key("type").string("array").key("items").raw(call);
  json.key("minItems").number(1).key("maxItems").number(most);
  return json.end_object().take();
}

FormAsk schema_form(std::string schema) {
  return {.kind = FormAsk::Kind::kSchema, .text = std::move(schema), .param = "tools"};
}

}  // namespace

Result<std::string> arguments_schema(const ToolAsk& tool, std::string_view base) {
  JsonReader json(tool.parameters.empty() ? std::string_view("{}") : std::string_view(tool.parameters), "schema");
  JsonWriter moved;
  BALLAST_CHECK(SchemaMove(json, moved, base).copy_root());
  return moved.take();
}

Result<std::vector<ForcedCall>> forced_calls(ToolCallStyle style, const ToolsAsk& tools) {
  std::vector<ToolAsk> callable;
  for (const ToolAsk& tool : tools.offered) {
    if (tools.named.empty() || tool.name == tools.named) callable.push_back(tool);
  }
  const std::string mark(tool_call_mark(style));
  std::vector<ForcedCall> calls;
  switch (style) {
    case ToolCallStyle::kTagged: {
      BALLAST_TRY(std::string schema, any_call_schema(callable, "arguments", ""));
      calls.push_back({.lead_in = {RenderedPart{mark + "\n"}}, .form = schema_form(std::move(schema))});
      break;
    }
    case ToolCallStyle::kBareObject: {
      BALLAST_TRY(std::string schema, any_call_schema(callable, "parameters", ""));
      calls.push_back({.lead_in = {}, .form = schema_form(std::move(schema))});
      break;
    }
    case ToolCallStyle::kMistralList: {
      const bool is_one = !tools.may_call_several || !tools.named.empty();
      BALLAST_TRY(std::string schema, call_list_schema(callable, is_one ? 1 : kMostForcedCalls));
      calls.push_back({.lead_in = {RenderedPart{mark}}, .form = schema_form(std::move(schema))});
      break;
    }
    case ToolCallStyle::kMistralNamed:
      for (const ToolAsk& tool : callable) {
        BALLAST_TRY(std::string schema, arguments_schema(tool, ""));
        calls.push_back({.lead_in = {RenderedPart{mark}, RenderedPart{tool.name, true},
                                     RenderedPart{std::string(kNamedCallArguments)}},
                         .form = schema_form(std::move(schema))});
      }
      break;
  }
  return calls;
}

}  // namespace ballast::serve
