#include "ballast/serve/read_response.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/serve/read_form.h"
#include "ballast/serve/read_messages.h"
#include "ballast/serve/read_tools.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostResponseTools = 128;

// Calls that follow each other belong to one turn, that of the text before them.
void add_response_call(Fields& item, std::vector<ChatTurn>& turns) {
  JsonWriter json;
  json.begin_object().key("type").string("function").key("id").string(item.text("call_id").value_or(""));
  json.key("function").begin_object().key("name").string(item.text("name").value_or(""));
  json.key("arguments").raw(arguments_for_template(item)).end_object().end_object();
  if (turns.empty() || turns.back().role != "assistant") turns.push_back({.role = "assistant"});
  std::string& calls = turns.back().tool_calls;
  if (!calls.empty()) calls.pop_back();
  calls += (calls.empty() ? "[" : ",") + json.take() + "]";
}

// A message, or an item of another kind that an answer had. What was thought is not told again.
void read_input_item(Fields item, std::vector<ChatTurn>& turns) {
  const std::string type = item.text("type").value_or("message");
  if (type == "reasoning") return;
  if (type == "function_call") {
    add_response_call(item, turns);
    return;
  }
  if (type == "function_call_output") {
    turns.push_back(
        {.role = "tool", .content = read_content(item, "output"), .tool_call_id = item.text("call_id").value_or("")});
    return;
  }
  if (type != "message") {
    item.refuse("type", fmt::format("is \"{}\": it must be message, function_call or function_call_output", type),
                "unsupported_content");
    return;
  }
  const std::string role = item.text("role").value_or("");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    item.refuse("role", "must be user, assistant, system or developer");
  }
  turns.push_back({.role = role == "developer" ? "system" : role, .content = read_content(item, "content")});
}

// An event of a stream has no line ends; strings in JSON have none either.
std::string on_one_line(std::optional<std::string_view> raw) {
  std::string line(raw.value_or(""));
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

}  // namespace

void read_response_echo(Fields& fields, ResponseEcho& echo) {
  echo.instructions = on_one_line(fields.raw("instructions"));
  echo.tools = on_one_line(fields.raw("tools"));
  echo.tool_choice = on_one_line(fields.raw("tool_choice"));
  if (const auto text = fields.object("text")) echo.text_format = on_one_line(text->raw("format"));
}

void read_response_input(Fields& fields, std::vector<ChatTurn>& turns) {
  if (const auto instructions = fields.text("instructions"))
    turns.push_back({.role = "system", .content = *instructions});
  const auto raw = fields.raw("input");
  if (!raw) {
    fields.refuse("input", "is missing: it must be a text or a list of messages");
  } else if (!is_json_array(*raw)) {
    turns.push_back({.role = "user", .content = fields.text("input").value_or("")});
  } else {
    const auto items = fields.elements("input", kMostMessages);
    if (items.empty()) fields.refuse("input", "is an empty list");
    for (size_t i = 0; i < items.size() && !fields.refusal(); ++i) {
      read_input_item(fields.element(items[i], fmt::format("input[{}]", i)), turns);
    }
  }
}

void read_response_form(Fields& fields, std::optional<FormAsk>& form) {
  auto text = fields.object("text");
  if (auto format = text ? text->object("format") : std::nullopt) read_flat_format(*format, form);
}

void read_response_tools(Fields& fields, ToolsAsk& tools) {
  const auto elements = fields.elements("tools", kMostResponseTools);
  for (size_t i = 0; i < elements.size() && !fields.refusal(); ++i) {
    Fields tool = fields.element(elements[i], fmt::format("tools[{}]", i));
    const std::string type = tool.text("type").value_or("function");
    if (type != "function") {
      tool.refuse("type", fmt::format("is \"{}\": only functions can be offered", type), "unsupported_parameter");
    }
    add_tool(tool, "parameters", tools);
  }
  read_tool_choice(fields, tools);
}

}  // namespace ballast::serve
