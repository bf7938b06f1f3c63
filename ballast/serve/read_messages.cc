#include "ballast/serve/read_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/serve/read_tools.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostParts = 1000;
constexpr size_t kMostCalls = 128;
constexpr size_t kMostTemplateValues = 32;
constexpr size_t kMostTemplateText = 64;

constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};

// Nothing of what the model thought before it answered: templates leave that out, too.
std::optional<std::string> read_part(Fields part) {
  const std::string type = part.text("type").value_or("text");
  if (type == "thinking" || type == "redacted_thinking") return std::nullopt;
  if (type == "text" || type == "input_text" || type == "output_text") return part.text("text").value_or("");
  if (type == "refusal") return part.text("refusal").value_or("");
  part.refuse("type", fmt::format("is \"{}\": the models here read text only", type), "unsupported_content");
  return "";
}

std::string read_tool_calls(Fields& message, const std::string& name) {
  const auto calls = message.elements("tool_calls", kMostCalls);
  if (calls.empty()) return "";
  JsonWriter json;
  json.begin_array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields call = message.element(calls[i], fmt::format("{}[{}]", name, i));
    auto function = call.object("function");
    if (!function) call.refuse("function", "is missing: a call needs the function's name and arguments");
    if (!function || message.refusal()) return "";
    json.begin_object().key("type").string("function");
    if (const auto id = call.text("id")) json.key("id").string(*id);
    json.key("function").begin_object().key("name").string(function->text("name").value_or(""));
    json.key("arguments").raw(arguments_for_template(*function)).end_object().end_object();
  }
  return json.end_array().take();
}

ChatTurn read_turn(Fields message) {
  ChatTurn turn{.role = message.text("role").value_or("")};
  if (std::ranges::find(kRoles, turn.role) == kRoles.end()) {
    message.refuse("role", "must be system, developer, user, assistant or tool");
  }
  turn.content = read_content(message, "content");
  const std::string_view reasoning = message.has("reasoning_content") ? "reasoning_content"
                                     : message.has("thinking")        ? "thinking"
                                                                      : "reasoning";
  if (turn.role == "assistant") turn.reasoning = message.text(reasoning).value_or("");
  turn.tool_calls = read_tool_calls(message, "tool_calls");
  turn.tool_call_id = message.text("tool_call_id").value_or("");
  turn.name = message.text(message.has("tool_name") ? "tool_name" : "name").value_or("");
  // Ollama's clients send pictures beside the content.
  if (const auto images = message.raw("images"); images && !message.elements("images", kMostParts).empty()) {
    message.refuse("images", "has pictures: the models here read text only", "unsupported_content");
  }
  return turn;
}

bool is_plain_text(std::string_view raw) {
  if (raw.size() > kMostTemplateText + 2) return false;
  return std::ranges::all_of(raw.substr(1, raw.size() - 2), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == ' ' || c == '.';
  });
}

bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 6> kReserved = {"messages",  "tools",    "documents", "add_generation_prompt",
                                                         "bos_token", "eos_token"};
  return std::ranges::find(kReserved, name) != kReserved.end();
}

void append_turn(JsonWriter& json, const ChatTurn& turn, bool knows_developer) {
  const bool is_renamed = turn.role == "developer" && !knows_developer;
  json.begin_object().key("role").string(is_renamed ? "system" : turn.role);
  json.key("content").string(turn.content);
  if (!turn.reasoning.empty()) json.key("reasoning_content").string(turn.reasoning);
  if (!turn.tool_calls.empty()) json.key("tool_calls").raw(turn.tool_calls);
  if (!turn.tool_call_id.empty()) json.key("tool_call_id").string(turn.tool_call_id);
  if (!turn.name.empty()) json.key("name").string(turn.name);
  json.end_object();
}

}  // namespace

std::string arguments_for_template(Fields& function) {
  const auto raw = function.raw("arguments");
  if (!raw) return "{}";
  if (!is_json_string(*raw)) return std::string(*raw);
  const std::string text = function.text("arguments").value_or("");
  JsonReader json(text, "");
  const auto type = json.peek();
  const bool is_object = type && *type == JsonType::kObject && json.skip_value() && json.finish();
  return is_object ? text : std::string(*raw);
}

std::string read_content(Fields& fields, std::string_view key) {
  const auto raw = fields.raw(key);
  if (!raw) return "";
  if (!is_json_array(*raw)) return fields.text(key).value_or("");
  std::string content;
  bool is_first = true;
  const auto parts = fields.elements(key, kMostParts);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", key, i);
    std::optional<std::string> text;
    if (!is_json_string(parts[i])) text = read_part(fields.element(parts[i], name));
    else if (auto plain = JsonReader(parts[i], "").read_string()) text = std::move(*plain);
    else fields.refuse(name, "is not a text");
    if (!text) continue;
    if (!is_first) content += '\n';
    is_first = false;
    content += *text;
  }
  return content;
}

std::vector<ChatTurn> read_messages(Fields& fields, std::string_view key) {
  std::vector<ChatTurn> turns;
  const auto messages = fields.elements(key, kMostMessages);
  if (messages.empty()) fields.refuse(key, "is missing or empty: a conversation needs at least one message");
  for (size_t i = 0; i < messages.size() && !fields.refusal(); ++i) {
    turns.push_back(read_turn(fields.element(messages[i], fmt::format("{}[{}]", key, i))));
  }
  return turns;
}

void read_template_values(Fields& fields, TextAsk& ask) {
  if (const auto raw = fields.raw("chat_template_kwargs")) {
    JsonReader json(*raw, "");
    if (!json.enter_object()) {
      fields.refuse("chat_template_kwargs", "must be an object");
      return;
    }
    std::string key;
    for (;;) {
      const auto more = json.next_key(key);
      if (!more || !*more) break;
      const auto value = json.read_raw();
      if (!value) break;
      const bool is_allowed = !is_json_array(*value) && !is_json_object(*value) &&
                              (!is_json_string(*value) || is_plain_text(*value)) && !is_reserved(key);
      if (!is_allowed || ask.template_values.size() == kMostTemplateValues) {
        fields.refuse("chat_template_kwargs",
                      fmt::format("may have {} values, each true, false, a number or a short text of letters, digits, "
                                  "spaces and _ - . , and none that the server sets itself",
                                  kMostTemplateValues));
        return;
      }
      ask.template_values.emplace_back(key, *value);
    }
  }
  read_reasoning_effort(fields, "reasoning_effort", ask);
}

void read_reasoning_effort(Fields& fields, std::string_view key, TextAsk& ask) {
  const auto effort = fields.raw(key);
  if (!effort) return;
  if (is_json_string(*effort) && is_plain_text(*effort)) ask.template_values.emplace_back("reasoning_effort", *effort);
  else fields.refuse(key, "must be a word such as \"low\" or \"high\"");
}

std::string template_context(const TextAsk& ask, bool knows_developer, std::string_view bos, std::string_view eos) {
  JsonWriter json;
  json.begin_object().key("messages").begin_array();
  for (const ChatTurn& turn : ask.turns) append_turn(json, turn, knows_developer);
  json.end_array();
  if (!ask.tools.offered.empty()) json.key("tools").raw(tools_for_template(ask.tools));
  json.key("add_generation_prompt").boolean(true);
  json.key("bos_token").string(bos).key("eos_token").string(eos);
  for (const auto& [name, value] : ask.template_values) json.key(name).raw(value);
  return json.end_object().take();
}

}  // namespace ballast::serve
