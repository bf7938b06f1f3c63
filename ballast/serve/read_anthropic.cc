#include "ballast/serve/read_anthropic.h"

#include <fmt/format.h>

#include "ballast/serve/read_form.h"
#include "ballast/serve/read_messages.h"
#include "ballast/serve/read_tools.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostAnthropicParts = 1000;
constexpr size_t kMostAnthropicTools = 128;

// The parts of one message, sorted by what becomes of them.
class MessageParts {
 public:
  void add(Fields& message, std::string_view raw, const std::string& name) {
    if (is_json_string(raw)) {
      if (const auto text = JsonReader(raw, "").read_string()) add_text(*text);
      return;
    }
    Fields part = message.element(raw, name);
    const std::string type = part.text("type").value_or("text");
    if (type == "text") {
      add_text(part.text("text").value_or(""));
    } else if (type == "thinking") {
      turn_.reasoning += part.text("thinking").value_or("");
    } else if (type == "tool_use") {
      add_call(part);
    } else if (type == "tool_result") {
      results_.push_back({.role = "tool",
                          .content = read_content(part, "content"),
                          .tool_call_id = part.text("tool_use_id").value_or("")});
    } else if (type != "redacted_thinking") {
      part.refuse("type", fmt::format("is \"{}\": the models here read text only", type), "unsupported_content");
    }
  }

  // Results come before what the user says about them.
  void move_to(const std::string& role, std::vector<ChatTurn>& turns) {
    const bool is_result_only = !results_.empty() && turn_.content.empty();
    for (ChatTurn& result : results_) turns.push_back(std::move(result));
    if (is_result_only) return;
    turn_.role = role;
    if (has_calls_) turn_.tool_calls = calls_.end_array().take();
    turns.push_back(std::move(turn_));
  }

 private:
  void add_text(const std::string& text) {
    if (!turn_.content.empty()) turn_.content += '\n';
    turn_.content += text;
  }

  void add_call(Fields& part) {
    const auto input = part.raw("input");
    if (input && !is_json_object(*input)) part.refuse("input", "must be an object");
    if (!has_calls_) calls_.begin_array();
    has_calls_ = true;
    calls_.begin_object().key("type").string("function").key("id").string(part.text("id").value_or(""));
    calls_.key("function").begin_object().key("name").string(part.text("name").value_or(""));
    calls_.key("arguments").raw(input.value_or("{}")).end_object().end_object();
  }

  ChatTurn turn_{.role = ""};
  std::vector<ChatTurn> results_;
  JsonWriter calls_;
  bool has_calls_ = false;
};

void read_anthropic_message(Fields message, std::vector<ChatTurn>& turns) {
  const std::string role = message.text("role").value_or("");
  if (role != "user" && role != "assistant") message.refuse("role", "must be user or assistant");
  const auto raw = message.raw("content");
  if (!raw) message.refuse("content", "is missing");
  if (!raw || !is_json_array(*raw)) {
    turns.push_back({.role = role, .content = message.text("content").value_or("")});
    return;
  }
  MessageParts parts;
  const auto elements = message.elements("content", kMostAnthropicParts);
  for (size_t i = 0; i < elements.size(); ++i) parts.add(message, elements[i], fmt::format("content[{}]", i));
  parts.move_to(role, turns);
}

void read_anthropic_choice(Fields& fields, ToolsAsk& tools) {
  auto choice = fields.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->text("type").value_or("");
  tools.may_call_several = !choice->truth("disable_parallel_tool_use").value_or(false);
  if (type == "tool") {
    choose_tool(*choice, "name", choice->text("name").value_or(""), tools);
  } else if (type == "any") {
    if (tools.offered.empty()) choice->refuse("type", "is \"any\", but no tools are offered");
    tools.must_call = true;
  } else if (type == "none") {
    tools.offered.clear();
  } else if (type != "auto") {
    choice->refuse("type", fmt::format("is \"{}\": it must be auto, any, tool or none", type));
  }
}

}  // namespace

void read_anthropic_conversation(Fields& fields, std::vector<ChatTurn>& turns) {
  const auto messages = fields.elements("messages", kMostMessages);
  if (messages.empty()) fields.refuse("messages", "is missing or empty: a conversation needs at least one message");
  for (size_t i = 0; i < messages.size() && !fields.refusal(); ++i) {
    read_anthropic_message(fields.element(messages[i], fmt::format("messages[{}]", i)), turns);
  }
}

void read_anthropic_tools(Fields& fields, ToolsAsk& tools) {
  const auto elements = fields.elements("tools", kMostAnthropicTools);
  for (size_t i = 0; i < elements.size() && !fields.refusal(); ++i) {
    Fields tool = fields.element(elements[i], fmt::format("tools[{}]", i));
    const std::string type = tool.text("type").value_or("custom");
    if (type != "custom") {
      tool.refuse("type", fmt::format("is \"{}\": this server has no tools of its own", type), "unsupported_parameter");
    }
    add_tool(tool, "input_schema", tools);
  }
  read_anthropic_choice(fields, tools);
}

void read_anthropic_output(Fields& fields, TextAsk& ask) {
  auto config = fields.object("output_config");
  if (auto format = config ? config->object("format") : std::nullopt) read_flat_format(*format, ask.form);
  if (auto format = fields.object("output_format")) read_flat_format(*format, ask.form);
  if (config) read_reasoning_effort(*config, "effort", ask);
}

void read_anthropic_thinking(Fields& fields, TextAsk& ask) {
  auto thinking = fields.object("thinking");
  if (!thinking) return;
  const std::string type = thinking->text("type").value_or("");
  if (type == "adaptive") return;
  if (type != "enabled" && type != "disabled") {
    thinking->refuse("type", "must be \"enabled\", \"disabled\" or \"adaptive\"");
  }
  ask.template_values.emplace_back("enable_thinking", type == "enabled" ? "true" : "false");
}

}  // namespace ballast::serve
