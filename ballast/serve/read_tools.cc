#include "ballast/serve/read_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/serve/read_form.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostTools = 128;
constexpr size_t kLongestToolName = 64;

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestToolName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

bool is_offered(const ToolsAsk& tools, std::string_view name) {
  return std::ranges::any_of(tools.offered, [&](const ToolAsk& tool) { return tool.name == name; });
}

// {"type": "function", "function": {"name": "f"}}, or for responses {"type": "function", "name": "f"}
void read_named_choice(Fields& fields, ToolsAsk& tools) {
  auto choice = fields.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->text("type").value_or("function");
  if (type != "function") {
    choice->refuse("type", fmt::format("is \"{}\": only \"function\" is supported", type), "unsupported_parameter");
  }
  if (choice->has("name")) {
    choose_tool(*choice, "name", choice->text("name").value_or(""), tools);
    return;
  }
  auto function = choice->object("function");
  if (function) choose_tool(*function, "name", function->text("name").value_or(""), tools);
  else choice->refuse("function", "is missing: it holds the name of the tool that must be called");
}

}  // namespace

void add_tool(Fields& tool, std::string_view schema_key, ToolsAsk& tools) {
  ToolAsk read{.name = tool.text("name").value_or(""), .description = tool.text("description").value_or("")};
  if (!is_tool_name(read.name)) {
    tool.refuse("name", fmt::format("must have 1 to {} letters, digits, and characters of _ - .", kLongestToolName));
  }
  if (is_offered(tools, read.name)) tool.refuse("name", fmt::format("is \"{}\", as that of another tool", read.name));
  if (const auto raw = tool.raw(schema_key)) {
    auto schema = tool.object(schema_key);
    const auto type = schema ? schema->text("type") : std::nullopt;
    if (type && *type != "object") {
      schema->refuse("type", fmt::format("is \"{}\": the arguments of a call are an object", *type));
    }
    if (raw->size() > kMostFormBytes) {
      tool.refuse(schema_key, fmt::format("has {} bytes: at most {} are allowed", raw->size(), kMostFormBytes));
    }
    read.parameters = *raw;
  }
  tools.offered.push_back(std::move(read));
}

void choose_tool(Fields& fields, std::string_view key, std::string name, ToolsAsk& tools) {
  if (!is_offered(tools, name)) fields.refuse(key, fmt::format("is \"{}\", which is none of the tools", name));
  tools.must_call = true;
  tools.named = std::move(name);
}

void read_tools(Fields& fields, ToolsAsk& tools) {
  const auto elements = fields.elements("tools", kMostTools);
  for (size_t i = 0; i < elements.size() && !fields.refusal(); ++i) {
    Fields tool = fields.element(elements[i], fmt::format("tools[{}]", i));
    const std::string type = tool.text("type").value_or("function");
    if (type != "function") {
      tool.refuse("type", fmt::format("is \"{}\": only functions can be offered", type), "unsupported_parameter");
    }
    auto function = tool.object("function");
    if (function) add_tool(*function, "parameters", tools);
    else tool.refuse("function", "is missing: a tool needs at least a name");
  }
}

void read_tool_choice(Fields& fields, ToolsAsk& tools) {
  tools.may_call_several = fields.truth("parallel_tool_calls").value_or(true);
  const auto raw = fields.raw("tool_choice");
  if (!raw) return;
  if (is_json_object(*raw)) {
    read_named_choice(fields, tools);
    return;
  }
  const std::string choice = fields.text("tool_choice").value_or("");
  if (choice == "none") {
    tools.offered.clear();
  } else if (choice == "required") {
    if (tools.offered.empty()) fields.refuse("tool_choice", "is \"required\", but no tools are offered");
    tools.must_call = true;
  } else if (choice != "auto") {
    fields.refuse("tool_choice", fmt::format("is \"{}\": it must be none, auto, required, or an object that names a "
                                             "function",
                                             choice));
  }
}

std::string tools_for_template(const ToolsAsk& tools) {
  JsonWriter json;
  json.begin_array();
  for (const ToolAsk& tool : tools.offered) {
    json.begin_object().key("type").string("function").key("function").begin_object();
    json.key("name").string(tool.name).key("description").string(tool.description);
    // Templates look for properties without asking whether there are any.
    json.key("parameters").raw(tool.parameters.empty() ? R"({"type": "object", "properties": {}})" : tool.parameters);
    json.end_object().end_object();
  }
  return json.end_array().take();
}

}  // namespace ballast::serve
